// Finds repeated elements by a sweep over the rows, and missing ones by counting.
#include "terrace/checkpoint/completeness.h"

#include <fmt/format.h>

#include <algorithm>

namespace terrace::checkpoint {
namespace {

bool is_empty(const TensorRecord& record) { return std::ranges::find(record.shape, 0) != record.shape.end(); }

bool share(const TensorRecord& a, const TensorRecord& b) {
  for (size_t d = 0; d < a.shape.size(); ++d) {
    if (std::max(a.offset[d], b.offset[d]) >= std::min(a.offset[d] + a.shape[d], b.offset[d] + b.shape[d])) {
      return false;
    }
  }
  return true;
}

int64_t numel(const std::vector<int64_t>& shape) {
  int64_t product = 1;
  for (const int64_t extent : shape) product *= extent;
  return product;
}

bool contains(const TensorRecord& record, const std::vector<int64_t>& place) {
  for (size_t d = 0; d < place.size(); ++d) {
    if (place[d] < record.offset[d] || place[d] >= record.offset[d] + record.shape[d]) return false;
  }
  return true;
}

// The first element in row-major order that no slice holds; there must be one. Each step goes to the end of a slice's
// row.
std::vector<int64_t> first_missing(const TensorRecords& slices) {
  const std::vector<int64_t>& shape = slices.front()->global_shape;
  std::vector<int64_t> place(shape.size(), 0);
  for (;;) {
    const auto found = std::ranges::find_if(slices, [&](const auto* slice) { return contains(*slice, place); });
    if (found == slices.end()) return place;
    const TensorRecord& slice = **found;
    size_t dim = shape.size() - 1;
    for (; dim > 0 && slice.shape[dim] == shape[dim]; --dim) place[dim] = 0;  // whole rows at once
    place[dim] = slice.offset[dim] + slice.shape[dim];
    for (; dim > 0 && place[dim] == shape[dim]; --dim) {
      place[dim] = 0;
      ++place[dim - 1];
    }
  }
}

}  // namespace

std::string describe_region(const TensorRecord& record) {
  return fmt::format("[{}] at [{}]", fmt::join(record.shape, ", "), fmt::join(record.offset, ", "));
}

std::optional<std::pair<const TensorRecord*, const TensorRecord*>> find_overlapping(TensorRecords slices) {
  std::erase_if(slices, [](const auto* slice) { return is_empty(*slice); });
  std::ranges::sort(
      slices, {}, [](const auto* slice) -> const auto& { return slice->offset; });
  TensorRecords open;  // the slices that extend to the row where the next one begins
  for (const TensorRecord* slice : slices) {
    std::erase_if(open, [slice](const auto* before) {
      return !slice->offset.empty() && before->offset[0] + before->shape[0] <= slice->offset[0];
    });
    for (const TensorRecord* before : open) {
      if (share(*before, *slice)) return std::pair(before, slice);
    }
    open.push_back(slice);
  }
  return std::nullopt;
}

std::string completeness_problem(const TensorRecords& slices) {
  const TensorRecord& first = *slices.front();
  int64_t held = 0;
  for (const TensorRecord* slice : slices) {
    if (slice->global_shape != first.global_shape || slice->type != first.type) {
      return fmt::format("'{}' is {} [{}] on one rank and {} [{}] on another", first.name, first.type,
                         fmt::join(first.global_shape, ", "), slice->type, fmt::join(slice->global_shape, ", "));
    }
    held += numel(slice->shape);
  }
  if (const auto twice = find_overlapping(slices)) {
    return fmt::format("'{}' of shape [{}] has elements twice: {} and {}", first.name,
                       fmt::join(first.global_shape, ", "), describe_region(*twice->first),
                       describe_region(*twice->second));
  }
  if (const int64_t all = numel(first.global_shape); held != all) {
    return fmt::format("'{}' of shape [{}] has {} of its {} elements; the first that is missing is at [{}]", first.name,
                       fmt::join(first.global_shape, ", "), held, all, fmt::join(first_missing(slices), ", "));
  }
  return "";
}

}  // namespace terrace::checkpoint
