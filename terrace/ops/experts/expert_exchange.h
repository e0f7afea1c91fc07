// Brings the rows of tokens to the ranks that have their experts, and the results back (GShard, arXiv 2006.16668,
// section 3.3). Rows are sent as they are, without padding, after their numbers.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "terrace/ops/cut.h"

namespace terrace::ops {

// compute(rows [M, D], weights [M], offsets of this rank's experts) -> [M, D]: the rows that all ranks give to these
// experts, by expert, then by rank, then in the order of the rank's own rows.
using ComputeExperts =
    std::function<at::Tensor(const at::Tensor& rows, const at::Tensor& weights, const std::vector<int64_t>& offsets)>;

// The results [R, D] of `rows` [R, D] in their order: rows [offsets[e], offsets[e + 1]) belong to expert e, of which
// member m of n ranks has those from m E / n on. `weights` [R] in the computing type go along. All ranks make the call
// at the same place, and its backward, also those without rows. Differentiable to rows and weights.
//
// A rank sends its numbers of rows, 8 bytes an expert of each other rank, then D elements and one weight for each row
// whose expert is elsewhere, and gets D elements back; backward does the same, without the numbers.
at::Tensor compute_on_expert_ranks(const at::Tensor& rows, const at::Tensor& weights,
                                   const std::vector<int64_t>& offsets, MovingRanks& ranks,
                                   const ComputeExperts& compute);

}  // namespace terrace::ops
