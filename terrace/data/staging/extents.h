// Numbers the extents of several files: pieces of equal size, of which the last one of a file may be shorter.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace terrace::data {

class Extents {
 public:
  // A part of one extent.
  struct Part {
    uint32_t extent = 0;
    uint64_t begin = 0, bytes = 0;  // `begin` counts from the beginning of the extent
  };
  // The place of an extent in the files.
  struct Place {
    size_t file = 0;
    uint64_t offset = 0, bytes = 0;
    bool operator==(const Place&) const = default;
  };

  Extents() = default;
  Extents(std::vector<uint64_t> file_bytes, uint64_t extent_bytes);

  uint64_t extent_bytes() const { return extent_bytes_; }
  uint64_t count() const { return first_.back(); }
  uint64_t bytes() const;  // of all files
  Place place(uint32_t extent) const;

  // Calls visit(Part) for the parts of a range of a file, in order.
  template <typename Visit>
  void for_each_part(size_t file, uint64_t offset, uint64_t bytes, Visit visit) const {
    while (bytes > 0) {
      const uint64_t begin = offset % extent_bytes_, size = std::min(bytes, extent_bytes_ - begin);
      visit(Part{static_cast<uint32_t>(first_[file] + offset / extent_bytes_), begin, size});
      offset += size;
      bytes -= size;
    }
  }

 private:
  std::vector<uint64_t> file_bytes_;
  uint64_t extent_bytes_ = 1;
  std::vector<uint64_t> first_ = {0};  // the first extent of each file, and the number of all
};

// The facts by which the size of extents is chosen. Large extents are read from the source fastest, but of an extent
// that is copied for one record the rest is copied for nothing. So extents have `largest_extent` bytes where all that
// the node reads of the files fits into a buffer of `buffer_bytes` and the run reads at least as many bytes; else the
// least power of two that holds a record, from `least_extent` on. There are at most `most_extents` extents.
struct ExtentRequest {
  std::vector<uint64_t> file_bytes = {};
  uint64_t buffer_bytes = 0;
  uint64_t node_bytes = 0;    // consecutive bytes of the files that the node reads; 0: all of them
  uint64_t read_bytes = 0;    // of the whole run, by the ranks of a node
  uint64_t record_bytes = 0;  // bytes that are read at a time, on average
};
inline constexpr uint64_t largest_extent = uint64_t{1} << 20, least_extent = uint64_t{1} << 12;
inline constexpr uint64_t most_extents = uint64_t{1} << 22;
uint64_t extent_bytes_for(const ExtentRequest& request);

}  // namespace terrace::data
