// The vectors for which products and attention have kernels, in ops/cpu/vectors/, and which this processor runs.
#pragma once

#include <c10/core/ScalarType.h>

namespace terrace::ops::cpu {

enum class VectorSet {
  none,
  avx2,    // of eight numbers: AVX2, FMA and F16C
  avx512,  // of sixteen: AVX-512
};

// The kernels of matrix products of the type, of attention in decoding and of products of a few rows. With AVX-512
// there are kernels of fp32, and of bf16 if the processor also has AVX-512 BF16; with AVX2 there are kernels of fp32,
// bf16 and fp16. As torch does, a process uses no wider vectors than the environment's ATEN_CPU_CAPABILITY says
// (avx512, avx2 or default).
VectorSet vector_set(c10::ScalarType type);

// "avx512", "avx2", or "torch" for none.
constexpr const char* name_of(VectorSet vectors) {
  return vectors == VectorSet::avx512 ? "avx512" : vectors == VectorSet::avx2 ? "avx2" : "torch";
}

}  // namespace terrace::ops::cpu
