// Splits ranges of elements into regions, taking the largest region that fits at each step.
#include "terrace/checkpoint/range.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "terrace/base/error.h"

namespace terrace::checkpoint {
namespace {

// The largest region that starts at element `at` and does not extend beyond `end`.
Region largest_region(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides, int64_t at, int64_t end) {
  size_t dim = 0;  // the region has one index in each dimension before `dim`, and all indices in each one after it
  while (at % strides[dim] != 0 || end - at < strides[dim]) ++dim;
  Region region{std::vector<int64_t>(shape.size()), shape};
  for (size_t d = 0; d < shape.size(); ++d) {
    region.offset[d] = at / strides[d] % shape[d];
    if (d < dim) region.shape[d] = 1;
  }
  region.shape[dim] = std::min((end - at) / strides[dim], shape[dim] - region.offset[dim]);
  return region;
}

}  // namespace

int64_t Region::numel() const { return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>()); }

std::vector<Region> regions_of(const ElementRange& range) {
  const Region whole{std::vector<int64_t>(range.shape.size(), 0), range.shape};
  TERRACE_CHECK(0 <= range.begin && range.begin <= range.end && range.end <= whole.numel(),
                "elements {} to {} of a slice of shape [{}]", range.begin, range.end, fmt::join(range.shape, ", "));
  if (range.begin == range.end) return {};
  if (range.shape.empty()) return {whole};
  std::vector<int64_t> strides(range.shape.size(), 1);
  for (size_t d = strides.size() - 1; d > 0; --d) strides[d - 1] = strides[d] * range.shape[d];
  std::vector<Region> regions;
  for (int64_t at = range.begin; at < range.end; at += regions.back().numel()) {
    regions.push_back(largest_region(range.shape, strides, at, range.end));
  }
  return regions;
}

}  // namespace terrace::checkpoint
