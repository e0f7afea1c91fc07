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

// gradient += dy^T x for dy [N, O], x [N, I]: in place where the types agree, else one product in the type of x and one
// pass over the wider buffer. Does nothing where gradient is undefined.
void add_outer_product(const at::Tensor& gradient, const at::Tensor& dy, const at::Tensor& x);

}  // namespace terrace::ops
