// The linear layer with a weight gradient that can be put off.
#pragma once

#include <ATen/core/Tensor.h>

#include "terrace/ops/weight.h"

namespace terrace::ops {

// y [.., O] = x [.., I] weight^T + bias; weight [O, I], bias [O] or undefined. Backward adds the gradients of weight
// and bias to their buffers, or pushes that work to `deferred`, which must outlive the backward pass and be run before
// the gradients are read.
at::Tensor linear(const at::Tensor& x, const Weight& weight, const Weight& bias,
                  WeightGradientQueue* deferred = nullptr);

}  // namespace terrace::ops
