// A trained tensor for operations of torch, whose gradient goes to the buffer of the weight.
#pragma once

#include <ATen/core/Tensor.h>

#include "terrace/ops/weight.h"

namespace terrace::ops {

// A copy of the weight's value in `type`, for small weights that operations of torch read. Backward adds the gradient,
// which has this type, to the weight's buffer and leaves value.grad() undefined, so that the gradients of a 16-bit
// weight are summed in the type of the buffer. With `deferred` the addition is pushed to it, as ops::linear does; a
// pipeline that splits its backward adds a micro-batch's gradients of all weights at the same time. Undefined for an
// undefined weight.
at::Tensor trained_value(const Weight& weight, at::ScalarType type, WeightGradientQueue* deferred = nullptr);

}  // namespace terrace::ops
