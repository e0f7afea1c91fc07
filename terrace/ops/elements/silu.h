// SiLU, x sigmoid(x), with derivatives of any order. The first and the second are computed in few passes, where torch
// composes the first of operations that keep five tensors if it is to be differentiated again.
#pragma once

#include <ATen/core/Tensor.h>

namespace terrace::ops {

// Computes SiLU of x, which has any shape and floating-point type.
at::Tensor silu(const at::Tensor& x);

}  // namespace terrace::ops
