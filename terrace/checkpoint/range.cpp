// Ranges of elements to boxes, the largest that fits first.
#include "terrace/checkpoint/range.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "terrace/base/error.h"

namespace terrace::checkpoint {
namespace {

// The box that starts at element `at`, ends at `end` or before, and spans as much as it can.
Box largest_box(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides, int64_t at, int64_t end) {
  size_t dim = 0;  // the outermost that the box has more than one of; all outside are single, all inside are whole
  while (at % strides[dim] != 0 || end - at < strides[dim]) ++dim;
  Box box{std::vector<int64_t>(shape.size()), shape};
  for (size_t d = 0; d < shape.size(); ++d) {
    box.offset[d] = at / strides[d] % shape[d];
    if (d < dim) box.shape[d] = 1;
  }
  box.shape[dim] = std::min((end - at) / strides[dim], shape[dim] - box.offset[dim]);
  return box;
}

}  // namespace

int64_t Box::numel() const { return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>()); }

std::vector<Box> boxes_of(const ElementRange& range) {
  const Box whole{std::vector<int64_t>(range.shape.size(), 0), range.shape};
  TERRACE_CHECK(0 <= range.begin && range.begin <= range.end && range.end <= whole.numel(),
                "elements {} to {} of a slice of shape [{}]", range.begin, range.end, fmt::join(range.shape, ", "));
  if (range.begin == range.end) return {};
  if (range.shape.empty()) return {whole};
  std::vector<int64_t> strides(range.shape.size(), 1);
  for (size_t d = strides.size() - 1; d > 0; --d) strides[d - 1] = strides[d] * range.shape[d];
  std::vector<Box> boxes;
  for (int64_t at = range.begin; at < range.end; at += boxes.back().numel()) {
    boxes.push_back(largest_box(range.shape, strides, at, range.end));
  }
  return boxes;
}

}  // namespace terrace::checkpoint
