// The vectors that the kernels of this folder are written with: each kernel is written once and compiled for vectors of
// sixteen numbers (AVX-512) and of eight (AVX2). A source file of ../avx512/ or ../avx2/ includes its vectors.h first;
// where none is included, as in an editor, they are those of AVX-512.
#pragma once

#ifndef TERRACE_VECTOR_SET
#include "terrace/ops/cpu/avx512/vectors.h"
#endif
