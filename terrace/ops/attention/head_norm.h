// Norms of the queries and keys of each head (Henry et al., arXiv 2010.04245): RMS norms as in Qwen 3, or layer norms
// as in large vision transformers (Dehghani et al., arXiv 2302.05442).
#pragma once

#include <ATen/core/Tensor.h>

#include "terrace/ops/attention/attention.h"
#include "terrace/ops/kernels.h"
#include "terrace/ops/weight.h"

namespace terrace::ops {

// The weight [head_dim] of a norm, which all heads share, and a bias, which may be undefined.
struct HeadNorm {
  Weight weight, bias = {};
};

// joint [B, T, layout.columns()] with each query and each key normalised over head_dim; the values stay. Backward adds
// the gradients of weights and biases, summed over the heads of `joint`, to their buffers or defers them: on tensor
// ranks, which have a part of the heads, these are shares of the gradients.
at::Tensor normalize_heads(const at::Tensor& joint, const HeadLayout& layout, const HeadNorm& query,
                           const HeadNorm& key, const NormShape& shape, WeightGradientQueue* deferred = nullptr);

}  // namespace terrace::ops
