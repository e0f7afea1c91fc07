// The rows that experts compute: copies of tokens in the order of their experts, and the sums that bring them back.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace terrace::ops {

// The order of the R = N k pairs of a token and one of its k slots: by expert, then by token and slot.
struct ExpertRows {
  at::Tensor pairs;              // [R] int64, the pair n k + j that each row belongs to
  at::Tensor places;             // [R] int64, the row of each pair
  std::vector<int64_t> offsets;  // [E + 1], the first row of each expert; the last one is R
  int64_t slots = 1;             // k
};

// The order of choices [N, k] int32, each below `experts`. On a GPU this waits for the device.
ExpertRows rows_of_choices(const at::Tensor& choices, int64_t experts);

// x [N, D] -> [R, D]. The gradient of a token is the sum over its slots, as sum_rows() computes it.
at::Tensor gather_rows(const at::Tensor& x, const ExpertRows& rows);

// The sum over the slots of each token of values [R, D] -> [N, D], each times its weight [N, k] in the computing type
// (fp32, or double for double) if `weights` are defined. The slots are added in their order, in the computing type, and
// rounded once: the bits depend on no threads. Differentiable to values and weights.
at::Tensor sum_rows(const at::Tensor& values, const ExpertRows& rows, const at::Tensor& weights = {});

// weights [N, k] -> [R], in the order of the rows.
at::Tensor weights_of_rows(const at::Tensor& weights, const ExpertRows& rows);

}  // namespace terrace::ops
