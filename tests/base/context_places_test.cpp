// Which places of a sequence each rank has: every place once, and as many pairs of a query and a key on each.
#include "terrace/base/context_places.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace terrace {
namespace {

TEST(ContextPlaces, EveryPlaceIsOnOneRank) {
  for (const bool striped : {false, true}) {
    for (int64_t ranks = 1; ranks <= 5; ++ranks) {
      const ContextPlaces places{.length = 20 * ranks, .ranks = ranks, .striped = striped};
      std::vector<int> owners(static_cast<size_t>(places.length));
      for (int64_t rank = 0; rank < ranks; ++rank) {
        int64_t own = 0;
        for (const PlaceRange& range : places.ranges_of(rank)) {
          own += range.size;
          for (int64_t place = range.begin; place < range.end(); ++place) ++owners[static_cast<size_t>(place)];
        }
        EXPECT_EQ(own, places.own_length());
      }
      EXPECT_EQ(std::ranges::count(owners, 1), places.length) << ranks << striped;
    }
  }
}

TEST(ContextPlaces, StripesAreAHeadAndATail) {
  const ContextPlaces places{.length = 16, .ranks = 4, .striped = true};
  EXPECT_EQ(places.multiple(), 8);
  EXPECT_EQ(places.ranges_of(1), (std::vector<PlaceRange>{{2, 2}, {12, 2}}));
  EXPECT_EQ(places.ranges_of(3), (std::vector<PlaceRange>{{6, 2}, {8, 2}}));
}

TEST(ContextPlaces, WithStripesAllRanksHaveAsManyCausalPairs) {
  const ContextPlaces places{.length = 48, .ranks = 4, .striped = true};
  for (int64_t rank = 0; rank < 4; ++rank) {
    int64_t pairs = 0;
    for (const PlaceRange& range : places.ranges_of(rank)) {
      for (int64_t place = range.begin; place < range.end(); ++place) pairs += place + 1;
    }
    EXPECT_EQ(pairs, 48 * 49 / 2 / 4);
  }
}

TEST(ContextPlaces, RowsHaveThePlacesOfTheirRanges) {
  const ContextPlaces places{.length = 12, .ranks = 2, .given = {{{0, 2}, {3, 1}, {6, 3}}, {{2, 1}, {4, 2}, {9, 3}}}};
  const std::vector<int64_t> expected = {0, 1, 3, 6, 7, 8};
  for (int64_t first = 0; first < 6; ++first) {
    const RowPlaces rows = places.rows_of(0, first);
    for (int64_t row = 0; first + row < 6; ++row) {
      EXPECT_EQ(rows.of(row), expected[static_cast<size_t>(first + row)]) << first << " + " << row;
    }
  }
  EXPECT_EQ(RowPlaces::from(5).of(3), 8);
}

// Documents of lengths that are drawn, odd ones too; every query sees the tokens of its document up to itself.
TEST(ContextPlaces, BalancedPlacesDividePairsOfDocumentsWithinFivePercent) {
  std::mt19937_64 random(3);
  for (const int64_t ranks : {2, 3, 4, 8}) {
    for (const double mean : {150.0, 600.0, 3000.0, 20'000.0}) {
      const int64_t length = ranks * 2048;
      std::vector<int64_t> work(static_cast<size_t>(length));
      std::exponential_distribution<double> drawn(1 / mean);
      int64_t left = 0, seen = 0;
      for (int64_t& one : work) {
        if (left == 0) {
          left = 1 + static_cast<int64_t>(drawn(random));
          seen = 0;
        }
        --left;
        one = ++seen;
      }
      const ContextPlaces places = balanced_places(length, ranks, work);
      std::vector<int64_t> sums(static_cast<size_t>(ranks)), owners(static_cast<size_t>(length));
      for (int64_t rank = 0; rank < ranks; ++rank) {
        int64_t own = 0;
        for (const PlaceRange& range : places.ranges_of(rank)) {
          own += range.size;
          for (int64_t place = range.begin; place < range.end(); ++place) {
            ++owners[static_cast<size_t>(place)];
            sums[static_cast<size_t>(rank)] += work[static_cast<size_t>(place)];
          }
        }
        EXPECT_EQ(own, places.own_length());
      }
      EXPECT_EQ(std::ranges::count(owners, 1), length);
      const double even = static_cast<double>(std::accumulate(work.begin(), work.end(), int64_t{0})) / ranks;
      for (const int64_t sum : sums) EXPECT_NEAR(static_cast<double>(sum), even, 0.05 * even) << ranks << ' ' << mean;
    }
  }
}

}  // namespace
}  // namespace terrace
