// Attention over a range of keys by separate operations of torch, for devices, types and widths without kernels of
// ours. partial_attention.h says what the functions compute.
#pragma once

#include "terrace/ops/attention/partial_attention.h"

namespace terrace::ops {

// Scores exist for a limited number of queries at a time, in fp32 or double.
void add_attention_unfused(const PartialAttention& part, const RunningContext& running);
void add_gradients_unfused(const PartialAttention& part, const at::Tensor& log_sums, const at::Tensor& products,
                           const at::Tensor& context_gradient, const PartialGradients& gradients);

}  // namespace terrace::ops
