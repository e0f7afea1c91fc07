// The kernel of cached_attention() for processors with AVX-512.
#pragma once

#include <ATen/core/Tensor.h>

#include "terrace/ops/cached_attention.h"

namespace terrace::ops::cpu {

// Whether this processor has the instructions for the type: fp32 or bf16.
bool has_decode_attention(c10::ScalarType type);

// Writes `context` [B, 1, H * hd].
void decode_attention(const Heads& heads, const CachedKeys& cache, const at::Tensor& context);

}  // namespace terrace::ops::cpu
