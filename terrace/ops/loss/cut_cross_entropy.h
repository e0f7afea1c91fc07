// Computes the cross-entropy of a vocabulary that is cut over ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "terrace/ops/cut.h"

namespace terrace::ops {

// The columns of logits, of `columns` on this rank, that count, and the places of the targets among them.
struct LossColumns {
  int64_t counted;
  at::Tensor target;  // [N] int64; -1: not counted, or on another rank
};

// `cut` is null if all columns are here.
LossColumns loss_columns(const Cut* cut, const at::Tensor& targets, int64_t columns, int64_t vocabulary);

// The sums of each row of logits that a loss needs, from the columns of one rank or of all ranks.
struct RowSums {
  at::Tensor top;    // [N] double: the largest logit, or another number near it
  at::Tensor sum;    // [N] double: of exp(logit - top)
  at::Tensor logit;  // [N] double: the target's, 0 if another rank has it
};

struct SumsOfRanks : RowSums {
  at::Tensor spread;  // [N] double: how far the tops of ranks are from each other; ranks without columns have none
};

// Exchanges the sums of all ranks, once.
SumsOfRanks sums_of_all(const Cut& cut, const RowSums& own);

// Like Kernels::cross_entropy, for logits [N, V] that are the columns member() V to (member() + 1) V - 1 of all logits.
// The losses [N] are over all columns below `vocabulary` and equal on every rank. If gradient_scale is not 0, the
// logits become this rank's columns of the gradient. The ranks exchange three numbers per row, once.
void cut_cross_entropy(const Cut& cut, const at::Tensor& logits, const at::Tensor& targets, int64_t vocabulary,
                       double gradient_scale, const at::Tensor& losses);

}  // namespace terrace::ops
