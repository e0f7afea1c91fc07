// Cross-entropy over a vocabulary that is cut over ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "terrace/ops/cut.h"

namespace terrace::ops {

// As Kernels::cross_entropy for logits [N, V] of which this rank has columns member() V to (member() + 1) V - 1 of the
// whole: the losses [N] are over all columns below `vocabulary` and equal on every rank, and logits become this rank's
// columns of the gradient where gradient_scale is not 0. Three numbers a row cross between ranks, once.
void cut_cross_entropy(const Cut& cut, const at::Tensor& logits, const at::Tensor& targets, int64_t vocabulary,
                       double gradient_scale, const at::Tensor& losses);

}  // namespace terrace::ops
