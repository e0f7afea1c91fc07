// Layer norm (Ba et al., arXiv 1607.06450) and RMS norm (Zhang and Sennrich, arXiv 1910.07467) over the last dimension,
// with statistics in fp32.
#pragma once

#include <ATen/core/Tensor.h>

#include "terrace/ops/weight.h"

namespace terrace::ops {

// (x - mean) / sqrt(variance + epsilon) * weight + bias; bias may be undefined.
at::Tensor layer_norm(const at::Tensor& x, const Weight& weight, const Weight& bias, double epsilon);

// x / sqrt(mean(x^2) + epsilon) * weight.
at::Tensor rms_norm(const at::Tensor& x, const Weight& weight, double epsilon);

// The residual stream after the addition of a branch's output, and its norm, which is the input of the next branch.
struct Normed {
  at::Tensor sum;  // x + added; x itself where nothing is added
  at::Tensor y;    // its norm
};

// layer_norm and rms_norm of x + added, where `added` may be undefined. Forward and backward pass over memory once:
// backward adds the gradient of the sum to the gradient of its norm and sums up the gradients of the weights in the
// same pass. These are added to their buffers at once or by `deferred`, together with those of neighbouring layers.
Normed add_layer_norm(const at::Tensor& x, const at::Tensor& added, const Weight& weight, const Weight& bias,
                      double epsilon, WeightGradientQueue* deferred = nullptr);
Normed add_rms_norm(const at::Tensor& x, const at::Tensor& added, const Weight& weight, double epsilon,
                    WeightGradientQueue* deferred = nullptr);

}  // namespace terrace::ops
