// The slices of whole parameters that a rank's tensors are, and the overlap of two slices.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "terrace/checkpoint/checkpoint.h"
#include "terrace/checkpoint/manifest.h"

namespace terrace::checkpoint {

// A rectangular portion of a whole tensor with its values, which are a rank's tensor or a view of it.
struct Slice {
  TensorRecord record;
  at::Tensor values;
};

// The slices that a tensor consists of by its mark and range. It is a broken invariant if the tensor is unmarked or
// does not fit its mark or its range.
std::vector<Slice> slices_of(const NamedTensor& named);

// The elements that two slices of one whole tensor have in common.
struct Overlap {
  std::vector<int64_t> from_first;   // their offset in the first slice
  std::vector<int64_t> from_second;  // their offset in the second slice
  std::vector<int64_t> shape;

  int64_t numel() const;
};

// Both records have the same number of dimensions. The result has size 0 in dimensions without common indices.
Overlap overlap(const TensorRecord& first, const TensorRecord& second);

// The view of the slice [offset, offset + shape) of `tensor`.
at::Tensor view_at(at::Tensor tensor, const std::vector<int64_t>& offset, const std::vector<int64_t>& shape);

}  // namespace terrace::checkpoint
