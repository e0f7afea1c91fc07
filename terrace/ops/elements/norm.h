// Layer norm (Ba et al., arXiv 1607.06450) and RMS norm (Zhang and Sennrich, arXiv 1910.07467) over the last dimension,
// with statistics in fp32.
#pragma once

#include <ATen/core/Tensor.h>

#include "terrace/ops/elements/residual_stream.h"
#include "terrace/ops/weight.h"

namespace terrace::ops {

// (x - mean) / sqrt(variance + epsilon) * weight + bias; bias may be undefined.
at::Tensor layer_norm(const at::Tensor& x, const Weight& weight, const Weight& bias, double epsilon);

// x / sqrt(mean(x^2) + epsilon) * (weight + weight_offset). The sum of weight and offset is not rounded to the type of
// x: the offset is 1 in the norms of Gemma (arXiv 2403.08295), whose weights are small.
at::Tensor rms_norm(const at::Tensor& x, const Weight& weight, double epsilon, double weight_offset = 0.0);

// layer_norm and rms_norm of a residual stream. If a branch is noted in it, the same kernel computes the sum, which
// then is the stream's x. Backward too passes over memory once: it adds the gradient of the sum to the gradient of its
// norm and sums up the gradients of the weights. These are added to their buffers at once or by `deferred`, together
// with those of neighbouring layers.
at::Tensor layer_norm(ResidualStream& stream, const Weight& weight, const Weight& bias, double epsilon,
                      WeightGradientQueue* deferred = nullptr);
at::Tensor rms_norm(ResidualStream& stream, const Weight& weight, double epsilon,
                    WeightGradientQueue* deferred = nullptr, double weight_offset = 0.0);

}  // namespace terrace::ops
