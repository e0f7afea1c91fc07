// The normalisation of batch norm (Ioffe and Szegedy, arXiv 1502.03167) with statistics over the rows of all ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include "terrace/ops/cut.h"

namespace terrace::ops {

// Statistics of the rows of all ranks together, in fp64 on x's device; the same on every rank.
struct RowStatistics {
  at::Tensor rows;            // [1]: their number
  at::Tensor mean, variance;  // [D]; the variance is divided by the number of rows. Both are 0 where there are no rows.
};

struct NormalizedRows {
  at::Tensor x;  // [N, D]
  RowStatistics statistics;
};

// (x - mean) / sqrt(variance + epsilon) of x [N, D], where mean and variance are those of the rows of all `ranks`;
// null: of x alone. All ranks make the call together, and the backward too: also those with N = 0. The mean is summed
// first and then the squares of the deviations from it, so that two sums pass between the ranks in forward and one in
// backward, of D numbers (+ 1) each in fp64. Throws std::runtime_error where the backward is to be differentiated.
NormalizedRows normalized_rows(const at::Tensor& x, double epsilon, Ranks* ranks);

}  // namespace terrace::ops
