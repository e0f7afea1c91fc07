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

// Where the residual stream passes a norm: what a branch computed is added to it, and the sum is the next branch's
// input when normed.
struct Normed {
  at::Tensor sum;  // x + added; x itself where nothing is added
  at::Tensor y;    // its norm
};

// layer_norm and rms_norm of x + added, where `added` may be undefined. One pass over memory each way: backward adds
// the gradient of the sum to that of its norm. The gradients of the weights, which that pass sums up, are added to
// their buffers then, or by `deferred`, so that they come with those of the layers around.
Normed add_layer_norm(const at::Tensor& x, const at::Tensor& added, const Weight& weight, const Weight& bias,
                      double epsilon, WeightGradientQueue* deferred = nullptr);
Normed add_rms_norm(const at::Tensor& x, const at::Tensor& added, const Weight& weight, double epsilon,
                    WeightGradientQueue* deferred = nullptr);

}  // namespace terrace::ops
