// A range of a tensor's elements in row-major order as boxes, which every reader of tensors understands.
#pragma once

#include <cstdint>
#include <vector>

namespace terrace::checkpoint {

// Elements [begin, end) of a slice of `shape`, counted in row-major order: what a rank holds where parameters lie one
// after another in a buffer that is cut anywhere.
struct ElementRange {
  int64_t begin = 0;
  int64_t end = 0;
  std::vector<int64_t> shape;  // of the slice whose elements are counted: the parameter's own on this rank

  bool operator==(const ElementRange&) const = default;
};

struct Box {
  std::vector<int64_t> offset;
  std::vector<int64_t> shape;

  int64_t numel() const;
  bool operator==(const Box&) const = default;
};

// The fewest boxes that hold exactly the range, in the order of their elements: for d dimensions at most 2 d - 1 (the
// rest of a row, whole rows, the start of a row). None for an empty range. The range lies inside its shape.
std::vector<Box> boxes_of(const ElementRange& range);

}  // namespace terrace::checkpoint
