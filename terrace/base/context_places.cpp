// Divides places among ranks.
#include "terrace/base/context_places.h"

#include <algorithm>
#include <numeric>

#include "terrace/base/error.h"

namespace terrace {
namespace {

// The pieces of each rank and their work.
struct Shares {
  std::vector<std::vector<size_t>> pieces;
  std::vector<int64_t> work;
};

// Gives each piece, the largest first, to the rank with the least work of those that may have one more.
Shares dealt(const std::vector<int64_t>& work, int64_t ranks, size_t pieces_of_rank) {
  std::vector<size_t> order(work.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return work[a] > work[b]; });
  Shares shares{.pieces = std::vector<std::vector<size_t>>(static_cast<size_t>(ranks)),
                .work = std::vector<int64_t>(static_cast<size_t>(ranks))};
  for (const size_t piece : order) {
    size_t least = shares.work.size();
    for (size_t rank = 0; rank < shares.work.size(); ++rank) {
      if (shares.pieces[rank].size() == pieces_of_rank) continue;
      if (least == shares.work.size() || shares.work[rank] < shares.work[least]) least = rank;
    }
    shares.pieces[least].push_back(piece);
    shares.work[least] += work[piece];
  }
  return shares;
}

// Exchanges the two pieces of the rank with most work and another one that bring the two nearest to each other; returns
// false where no exchange does.
bool exchange_best(Shares& shares, const std::vector<int64_t>& work) {
  const auto most = static_cast<size_t>(std::ranges::max_element(shares.work) - shares.work.begin());
  size_t rank = most, own_place = 0, other_place = 0;
  int64_t best = 0;  // by which the larger of both sums falls
  for (size_t other = 0; other < shares.work.size(); ++other) {
    const int64_t gap = shares.work[most] - shares.work[other];
    for (size_t i = 0; i < shares.pieces[most].size(); ++i) {
      for (size_t j = 0; j < shares.pieces[other].size(); ++j) {
        const int64_t moved = work[shares.pieces[most][i]] - work[shares.pieces[other][j]];
        const int64_t gain = std::min(moved, gap - moved);
        if (gain <= best) continue;
        best = gain;
        rank = other;
        own_place = i;
        other_place = j;
      }
    }
  }
  if (best == 0) return false;
  size_t &own = shares.pieces[most][own_place], &other = shares.pieces[rank][other_place];
  const int64_t moved = work[own] - work[other];
  shares.work[most] -= moved;
  shares.work[rank] += moved;
  std::swap(own, other);
  return true;
}

std::vector<PlaceRange> ranges_of(std::vector<size_t> pieces, int64_t size) {
  std::ranges::sort(pieces);
  std::vector<PlaceRange> ranges;
  for (const size_t piece : pieces) {
    const int64_t begin = static_cast<int64_t>(piece) * size;
    if (!ranges.empty() && ranges.back().end() == begin) {
      ranges.back().size += size;
    } else {
      ranges.push_back({begin, size});
    }
  }
  return ranges;
}

}  // namespace

std::vector<PlaceRange> ContextPlaces::ranges_of(int64_t rank) const {
  if (!given.empty()) return given[static_cast<size_t>(rank)];
  if (ranks == 1) return {{0, length}};
  const int64_t size = length / multiple();
  if (!striped) return {{rank * size, size}};
  return {{rank * size, size}, {(2 * ranks - 1 - rank) * size, size}};
}

RowPlaces ContextPlaces::rows_of(int64_t rank, int64_t first_row) const {
  RowPlaces places{.count = 0};
  int64_t row = -first_row;
  for (const PlaceRange& range : ranges_of(rank)) {
    const int64_t skipped = std::min(range.size, std::max<int64_t>(0, -row));
    if (skipped < range.size) {
      const auto at = static_cast<size_t>(places.count++);
      TERRACE_CHECK(places.count <= most_place_ranges, "{} ranges of a rank", places.count);
      places.rows[at] = row + skipped;
      places.begins[at] = range.begin + skipped;
    }
    row += range.size;
  }
  return places;
}

ContextPlaces balanced_places(int64_t length, int64_t ranks, std::span<const int64_t> work) {
  TERRACE_CHECK(std::ssize(work) == length && length % (2 * ranks) == 0, "{} places on {} ranks", length, ranks);
  int64_t pieces = most_place_ranges;  // of each rank
  while (length % (pieces * ranks) != 0) pieces /= 2;
  const int64_t size = length / (pieces * ranks);
  std::vector<int64_t> of_pieces;
  for (int64_t begin = 0; begin < length; begin += size) {
    const auto own = work.subspan(static_cast<size_t>(begin), static_cast<size_t>(size));
    of_pieces.push_back(std::accumulate(own.begin(), own.end(), int64_t{0}));
  }
  Shares shares = dealt(of_pieces, ranks, static_cast<size_t>(pieces));
  for (int64_t i = 0; i < 4 * pieces * ranks && exchange_best(shares, of_pieces); ++i) continue;
  ContextPlaces places{.length = length, .ranks = ranks, .striped = true, .given = {}};
  for (std::vector<size_t>& own : shares.pieces) places.given.push_back(terrace::ranges_of(std::move(own), size));
  return places;
}

}  // namespace terrace
