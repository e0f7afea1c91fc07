// The feed-forward layers of all experts as one operation.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "terrace/ops/elements/activation.h"
#include "terrace/ops/weight.h"

namespace terrace::ops {

// Without biases. The rows of `first` are in the order of ops/products/feed_forward.h: for SwiGLU gate_0, up_0, gate_1,
// up_1, .. of each expert. Values and gradients are contiguous.
struct ExpertWeights {
  Weight first;   // [E, F, D], or [E, 2F, D] for SwiGLU
  Weight second;  // [E, D, F]
};

// y [R, D]: rows [offsets[e], offsets[e + 1]) of x [R, D] go through expert e, y_r = second_e (p_r phi(first_e x_r))
// for the weights p [R] of the computing type (fp32, or double for double), undefined: 1. So an expert's result is
// weighted although its output is not kept: backward computes d loss / d p_r as the scalar product of phi with the
// gradient of p_r phi. Differentiable to x and p; the gradients of the experts' weights are added to their buffers or
// deferred, the second layer's first.
//
// On a CPU all experts are one piece of work for all threads, whatever their numbers of rows, and have the bits of
// ops/products/products.h for each expert alone; an expert without rows costs nothing, and nothing is padded. On a GPU
// and for types without kernels of ours they are computed one after another.
at::Tensor expert_feed_forward(const at::Tensor& x, const at::Tensor& p, const std::vector<int64_t>& offsets,
                               const ExpertWeights& weights, Activation activation,
                               WeightGradientQueue* deferred = nullptr);

}  // namespace terrace::ops
