// Lists of ranks in words.
#include "terrace/mesh/rank_list.h"

#include <gtest/gtest.h>

namespace terrace::mesh {
namespace {

TEST(RankList, JoinsNeighbours) {
  EXPECT_EQ(rank_list({3}), "rank 3");
  EXPECT_EQ(rank_list({0, 1}), "ranks 0 and 1");
  EXPECT_EQ(rank_list({0, 2, 3, 4, 9}), "ranks 0, 2 to 4 and 9");
}

}  // namespace
}  // namespace terrace::mesh
