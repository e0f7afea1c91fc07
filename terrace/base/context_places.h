// Which positions of a sequence each of several ranks has (docs/context.md): pure arithmetic, which operations, data
// and the planner share.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace terrace {

// The places [begin, begin + size) of a sequence.
struct PlaceRange {
  int64_t begin = 0, size = 0;

  int64_t end() const { return begin + size; }
  bool operator==(const PlaceRange&) const = default;
};

// The most ranges that a rank has.
inline constexpr int64_t most_place_ranges = 8;

// The places of consecutive rows: those of one range after the other, from the row `rows[i]` on from `begins[i]` on.
// For kernels, which get it by value.
struct RowPlaces {
  int64_t count = 1;  // of ranges
  std::array<int64_t, most_place_ranges> rows = {}, begins = {};

  // All rows follow each other from this place on.
  static constexpr RowPlaces from(int64_t begin) {
    RowPlaces places;
    places.begins[0] = begin;
    return places;
  }
  // Also called by kernels of GPUs.
  constexpr int64_t of(int64_t row) const {
    auto range = static_cast<size_t>(count - 1);
    while (range > 0 && row < rows[range]) --range;
    return begins[range] + row - rows[range];
  }
};

// The division of `length` places among `ranks` ranks: as one range of each, or `striped`, as a head and a tail, the
// stripes r and 2 ranks - 1 - r of 2 ranks equal ones, so that in causal attention all ranks have as many pairs of a
// query and a key; or as `given` says.
struct ContextPlaces {
  int64_t length = 0, ranks = 1;
  bool striped = false;
  std::vector<std::vector<PlaceRange>> given = {};  // by rank, in ascending order; empty: as above

  // The length must be a multiple of this.
  int64_t multiple() const { return striped ? 2 * ranks : ranks; }
  int64_t own_length() const { return length / ranks; }
  // In ascending order, in which a rank has them; at most most_place_ranges.
  std::vector<PlaceRange> ranges_of(int64_t rank) const;
  // The places of a rank's rows, from `first_row` on.
  RowPlaces rows_of(int64_t rank, int64_t first_row = 0) const;
  bool operator==(const ContextPlaces&) const = default;
};

// The division in which each rank has equally many places, and the ranks nearly the same sum of work: `work` has that
// of every place, as the number of keys that its query sees. Every rank has up to most_place_ranges of equal pieces, as
// few as two where they do not divide the length, which is a multiple of 2 ranks. A function of its arguments alone.
ContextPlaces balanced_places(int64_t length, int64_t ranks, std::span<const int64_t> work);

}  // namespace terrace
