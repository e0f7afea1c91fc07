// Where a rank's tensor lies in its whole parameter, and the common part of two such slices.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "terrace/checkpoint/checkpoint.h"
#include "terrace/checkpoint/manifest.h"

namespace terrace::checkpoint {

// A box of a whole tensor, and the values in it: the tensor itself or a view of it.
struct Slice {
  TensorRecord record;
  at::Tensor values;
};

// A tensor by its mark: one slice, or the boxes of its range. A tensor that is unmarked or does not fit its mark or its
// range breaks an invariant.
std::vector<Slice> slices_of(const NamedTensor& named);

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
