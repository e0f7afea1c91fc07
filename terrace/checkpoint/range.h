// Splits a range of a tensor's elements in row-major order into slices, which every safetensors reader can represent.
#pragma once

#include <cstdint>
#include <vector>

namespace terrace::checkpoint {

// Elements [begin, end) of a slice of `shape`, counted in row-major order. A rank holds such ranges where parameters
// lie one after another in a flat buffer that is sharded at any element.
struct ElementRange {
  int64_t begin = 0;
  int64_t end = 0;
  std::vector<int64_t> shape;  // of the slice whose elements are counted: the parameter's local shape on this rank

  bool operator==(const ElementRange&) const = default;
};

// A rectangular block of a tensor: the elements [offset, offset + shape) in each dimension.
struct SliceBounds {
  std::vector<int64_t> offset;
  std::vector<int64_t> shape;

  int64_t numel() const;
  bool operator==(const SliceBounds&) const = default;
};

// The fewest slices that together are the range, in the order of their elements: for d dimensions at most 2 d - 1 (the
// rest of a row, whole rows, the start of a row), and none for an empty range. The range must lie inside its shape.
std::vector<SliceBounds> slices_in(const ElementRange& range);

}  // namespace terrace::checkpoint
