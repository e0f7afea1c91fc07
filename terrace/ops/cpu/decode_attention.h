// The kernel of cached_attention().
#pragma once

#include <ATen/core/Tensor.h>

#include "terrace/ops/attention/cached_attention.h"
#include "terrace/ops/cpu/vector_set.h"

namespace terrace::ops::cpu {

// Whether this processor has the instructions for the type.
inline bool has_decode_attention(c10::ScalarType type) { return vector_set(type) != VectorSet::none; }

// Writes `context` [B, 1, H * hd].
void decode_attention(const Heads& heads, const CachedKeys& cache, const at::Tensor& context);

}  // namespace terrace::ops::cpu
