// Nodes take the share of the slot after their own, from a node that reads it.
#include "terrace/train/share_neighbours.h"

#include <gtest/gtest.h>

namespace terrace::train {
namespace {

using List = std::vector<ShareNeighbours>;

TEST(ShareNeighbours, FormARingOfTheNodesWithAShareEach) {
  EXPECT_EQ(share_neighbours({.shares = 3, .data_ranks = 3}, {{0}, {1}, {2}}), (List{{1, 2}, {2, 0}, {0, 1}}));
  EXPECT_EQ(share_neighbours({.shares = 2, .data_ranks = 4}, {{0, 1}, {2, 3}}), (List{{1, 1}, {0, 0}}));
  // Two shares a node: one of them comes from the next node.
  EXPECT_EQ(share_neighbours({.shares = 4, .data_ranks = 2}, {{0}, {1}}), (List{{1, 1}, {0, 0}}));
  EXPECT_EQ(share_neighbours({.shares = 3, .data_ranks = 3}, {{0, 1}, {2}}), (List{{1, 1}, {0, 0}}));
}

TEST(ShareNeighbours, OfSeveralNodesWithTheSameSharesEachHasItsOwn) {
  // A data-parallel rank spans two nodes, as with tensor ranks; then with a pipeline whose middle reads nothing.
  EXPECT_EQ(share_neighbours({.shares = 2, .data_ranks = 2}, {{0}, {0}, {1}, {1}}),
            (List{{2, 2}, {3, 3}, {0, 0}, {1, 1}}));
  EXPECT_EQ(share_neighbours({.shares = 2, .data_ranks = 2}, {{0}, {1}, {}, {}, {0}, {1}}),
            (List{{1, 1}, {0, 0}, {-1, -1}, {-1, -1}, {5, 5}, {4, 4}}));
}

TEST(ShareNeighbours, AreNoneWhereNodesHaveAllSharesOrPartsOfThem) {
  EXPECT_FALSE(share_neighbours({.shares = 2, .data_ranks = 2}, {{0, 1}}));
  EXPECT_FALSE(share_neighbours({.shares = 2, .data_ranks = 2}, {{0, 1}, {0, 1}}));
  EXPECT_FALSE(share_neighbours({.shares = 2, .data_ranks = 3}, {{0}, {1}, {2}}));
  EXPECT_FALSE(share_neighbours({.shares = 4, .data_ranks = 4}, {{0, 2}, {1, 3}}));
}

}  // namespace
}  // namespace terrace::train
