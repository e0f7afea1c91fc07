// Looks at the pairs of edges of neighbour lists of random cells, with atoms that neighbour their own images.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <vector>

#include "terrace/data/graphs/neighbours.h"

namespace terrace::data {
namespace {

NeighbourList list_of(int64_t atoms, std::array<bool, 3> periodic, double cutoff, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<double> uniform(0, 4);
  std::vector<double> positions;
  for (int64_t i = 0; i < 3 * atoms; ++i) positions.push_back(uniform(generator));
  const Cell cell{.vectors = {{{4, 0, 0}, {0.7, 3.5, 0}, {-0.4, 1.1, 4.2}}}, .periodic = periodic};
  return find_neighbours(positions, cell, {.cutoff = cutoff});
}

TEST(MutualPairs, JoinEachEdgeWithTheOneBack) {
  for (unsigned seed = 0; seed < 4; ++seed) {
    for (const std::array<bool, 3> periodic :
         {std::array{true, true, true}, {true, false, true}, {false, false, false}}) {
      for (const int64_t atoms : {1, 2, 9}) {
        const NeighbourList list = list_of(atoms, periodic, 5, seed);
        const MutualPairs found = mutual_pairs(list);
        ASSERT_EQ(2 * std::ssize(found.first_edges), list.edges());
        std::vector<int> edges_of_pair(found.first_edges.size());
        for (size_t edge = 0; edge < found.pairs.size(); ++edge) {
          const auto pair = static_cast<size_t>(found.pairs[edge]);
          const auto first = static_cast<size_t>(found.first_edges.at(pair));
          ++edges_of_pair[pair];
          if (edge == first) continue;
          EXPECT_LT(first, edge);
          EXPECT_EQ(list.receivers[edge], list.senders[first]);
          EXPECT_EQ(list.senders[edge], list.receivers[first]);
          for (size_t k = 0; k < 3; ++k) EXPECT_EQ(list.shifts[edge][k], -list.shifts[first][k]);
        }
        for (const int count : edges_of_pair) EXPECT_EQ(count, 2);
        EXPECT_TRUE(std::is_sorted(found.first_edges.begin(), found.first_edges.end()));
      }
    }
  }
}

TEST(MutualPairs, AreNoneWithoutEdges) {
  const MutualPairs found = mutual_pairs(list_of(1, {false, false, false}, 5, 0));
  EXPECT_TRUE(found.pairs.empty());
  EXPECT_TRUE(found.first_edges.empty());
}

}  // namespace
}  // namespace terrace::data
