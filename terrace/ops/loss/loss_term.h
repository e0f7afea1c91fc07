// A term of a loss, as models::Model::loss() gives it.
#pragma once

#include <ATen/core/Tensor.h>

namespace terrace::ops {

// The sum in fp32, unchanged; its backward multiplies the gradient by `gradient_scale`. So a loss is reported as a sum
// over a micro-batch, while gradients are those of a scaled mean over a whole step.
at::Tensor loss_term(const at::Tensor& sum, double gradient_scale);

}  // namespace terrace::ops
