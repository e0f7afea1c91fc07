// Splits ranges of elements into slices, taking the largest one that fits at each step.
#include "terrace/checkpoint/range.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "terrace/base/error.h"

namespace terrace::checkpoint {
namespace {

// The largest slice that starts at element `at` and does not extend beyond `end`.
SliceBounds largest_slice(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides, int64_t at,
                          int64_t end) {
  size_t dim = 0;  // the slice has one index in each dimension before `dim`, and all indices in each one after it
  while (at % strides[dim] != 0 || end - at < strides[dim]) ++dim;
  SliceBounds bounds{std::vector<int64_t>(shape.size()), shape};
  for (size_t d = 0; d < shape.size(); ++d) {
    bounds.offset[d] = at / strides[d] % shape[d];
    if (d < dim) bounds.shape[d] = 1;
  }
  bounds.shape[dim] = std::min((end - at) / strides[dim], shape[dim] - bounds.offset[dim]);
  return bounds;
}

}  // namespace

int64_t SliceBounds::numel() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

std::vector<SliceBounds> slices_in(const ElementRange& range) {
  const SliceBounds whole{std::vector<int64_t>(range.shape.size(), 0), range.shape};
  TERRACE_CHECK(0 <= range.begin && range.begin <= range.end && range.end <= whole.numel(),
                "elements {} to {} of a slice of shape [{}]", range.begin, range.end, fmt::join(range.shape, ", "));
  if (range.begin == range.end) return {};
  if (range.shape.empty()) return {whole};
  std::vector<int64_t> strides(range.shape.size(), 1);
  for (size_t d = strides.size() - 1; d > 0; --d) strides[d - 1] = strides[d] * range.shape[d];
  std::vector<SliceBounds> slices;
  for (int64_t at = range.begin; at < range.end; at += slices.back().numel()) {
    slices.push_back(largest_slice(range.shape, strides, at, range.end));
  }
  return slices;
}

}  // namespace terrace::checkpoint
