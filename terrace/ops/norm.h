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

}  // namespace terrace::ops
