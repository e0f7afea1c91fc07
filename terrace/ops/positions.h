// Hidden states of all positions from those of the ranks, where sequence parallelism cuts them.
#pragma once

#include <ATen/core/Tensor.h>

#include "terrace/ops/cut.h"

namespace terrace::ops {

// x of all positions [B, T, ..] on every rank, from this rank's positions [B, T / ranks, ..]; x itself without a cut or
// without sequence parallelism. All ranks must then compute the same from it, such as a loss: the gradient of x is this
// rank's part of the gradient that each of them has.
at::Tensor all_positions(const Cut* cut, const at::Tensor& x, const char* what);

}  // namespace terrace::ops
