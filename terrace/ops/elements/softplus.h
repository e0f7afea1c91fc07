// The softplus, which torch computes an element at a time with two functions of the C library.
#pragma once

#include <ATen/core/Tensor.h>

namespace terrace::ops {

// log(1 + e^x) - shift of each element, with derivatives of any order. In 16-bit types it is computed in fp32 and
// rounded once. Above 20 it is x - shift, as in torch, which in fp64 leaves out up to 2e-9.
at::Tensor softplus(const at::Tensor& x, double shift = 0);

}  // namespace terrace::ops
