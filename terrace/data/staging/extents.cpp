// Finds extents by their numbers, and chooses their size.
#include "terrace/data/staging/extents.h"

#include <bit>
#include <numeric>

#include "terrace/base/error.h"

namespace terrace::data {
namespace {

constexpr uint64_t pieces_of_share = 64;  // at least, where extents have more than the least size

}  // namespace

Extents::Extents(std::vector<uint64_t> file_bytes, uint64_t extent_bytes)
    : file_bytes_(std::move(file_bytes)), extent_bytes_(extent_bytes) {
  for (const uint64_t bytes : file_bytes_) first_.push_back(first_.back() + (bytes + extent_bytes - 1) / extent_bytes);
}

uint64_t Extents::bytes() const { return std::accumulate(file_bytes_.begin(), file_bytes_.end(), uint64_t{0}); }

Extents::Place Extents::place(uint32_t extent) const {
  TERRACE_CHECK(extent < count(), "extent {} of {}", extent, count());
  const auto after = std::ranges::upper_bound(first_, uint64_t{extent});
  const auto file = static_cast<size_t>(after - first_.begin()) - 1;
  const uint64_t offset = (extent - first_[file]) * extent_bytes_;
  return {file, offset, std::min(extent_bytes_, file_bytes_[file] - offset)};
}

uint64_t extent_bytes_for(const ExtentRequest& request) {
  const uint64_t all = std::accumulate(request.file_bytes.begin(), request.file_bytes.end(), uint64_t{0});
  const uint64_t of_node = request.node_bytes > 0 ? std::min(request.node_bytes, all) : all;
  const bool large = of_node <= request.buffer_bytes && request.read_bytes >= of_node;
  // Where a node reads a part of the files, nodes pass on whole extents, so that a share has to have many of them.
  const uint64_t largest = of_node < all
                               ? std::clamp(std::bit_floor(of_node / pieces_of_share), least_extent, largest_extent)
                               : largest_extent;
  uint64_t bytes = large ? largest : std::clamp(std::bit_ceil(request.record_bytes), least_extent, largest_extent);
  while (Extents(request.file_bytes, bytes).count() > most_extents) bytes *= 2;
  return bytes;
}

}  // namespace terrace::data
