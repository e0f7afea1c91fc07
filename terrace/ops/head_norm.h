// RMS norm of the queries and keys of each head (Henry et al., arXiv 2010.04245; in this form in Qwen 3).
#pragma once

#include <ATen/core/Tensor.h>

#include "terrace/ops/attention.h"
#include "terrace/ops/weight.h"

namespace terrace::ops {

// joint [B, T, layout.columns()] with each query and each key divided by its root mean square over head_dim and
// multiplied by `query` or `key` [head_dim], which all heads share; the values stay. Backward adds the gradients of the
// two weights, summed over the heads of `joint`, to their buffers or defers them: on tensor ranks, which have a part of
// the heads, these are shares of the gradients.
at::Tensor normalize_heads(const at::Tensor& joint, const HeadLayout& layout, const Weight& query, const Weight& key,
                           double epsilon, WeightGradientQueue* deferred = nullptr);

}  // namespace terrace::ops
