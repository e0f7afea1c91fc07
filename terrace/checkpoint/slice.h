// Where a rank's tensor lies in its whole parameter, and the common part of two such slices.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "terrace/checkpoint/checkpoint.h"
#include "terrace/checkpoint/manifest.h"

namespace terrace::checkpoint {

// The record of a tensor by its mark. A tensor that is unmarked or does not fit its mark breaks an invariant.
TensorRecord record_of(const NamedTensor& named);

// What two slices of one whole tensor share.
struct Overlap {
  std::vector<int64_t> from_first;   // where it starts in the first slice, in each dimension
  std::vector<int64_t> from_second;  // and in the second
  std::vector<int64_t> shape;

  int64_t numel() const;
};

// Both records have the same number of dimensions. Empty extents come back as 0.
Overlap overlap(const TensorRecord& first, const TensorRecord& second);

// The view of `tensor` that starts at `offset` and has `shape`.
at::Tensor view_at(at::Tensor tensor, const std::vector<int64_t>& offset, const std::vector<int64_t>& shape);

}  // namespace terrace::checkpoint
