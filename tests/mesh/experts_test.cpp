// Groups of expert ranks and their replicas, worked out by hand, and errors for numbers that do not fit.
#include "terrace/mesh/experts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "terrace/base/error.h"

namespace terrace::mesh {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using Ranks = std::vector<int64_t>;

// Two stages of 2 x 2 x 2 ranks.
Mesh two_stages() {
  return {
      16, {{"pipeline", 2}, {"data", 2}, {"context", 2}, {"tensor", 2}}, {.ranks_per_pair = 2, .ranks_per_node = 4}};
}

config::LayoutConfig layout_of(int64_t experts) {
  config::LayoutConfig layout;
  layout.experts = experts;
  return layout;
}

TEST(ExpertGroups, AreNeighboursOfOneStage) {
  const Mesh mesh = two_stages();
  EXPECT_EQ(expert_group(mesh, 5, 4).ranks, (Ranks{4, 5, 6, 7}));
  EXPECT_EQ(expert_group(mesh, 9, 8).ranks, (Ranks{8, 9, 10, 11, 12, 13, 14, 15}));
  EXPECT_EQ(expert_coordinate(mesh, 13, 2), 2);
  EXPECT_EQ(expert_replicas({0, 1, 2, 3}, "replicas", mesh, 13, 2).ranks, (Ranks{9, 11, 13, 15}));
  EXPECT_EQ(reach_of(expert_group(mesh, 0, 4).ranks, mesh.topology()), Reach::node);
}

TEST(ExpertGroups, TakeEveryRankOnceInAnyOrderOfAxes) {
  const Mesh inside_out(12, {{"tensor", 2}, {"data", 3}, {"pipeline", 2}}, {});
  for (const int64_t experts : {1, 2, 3, 6}) {
    std::set<Ranks> groups;
    for (int64_t rank = 0; rank < 12; ++rank) {
      const Ranks group = expert_group(inside_out, rank, experts).ranks;
      EXPECT_EQ(std::ranges::count(group, rank), 1);
      groups.insert(group);
      for (const int64_t other : group) {
        EXPECT_EQ(inside_out.coordinate(other, "pipeline"), inside_out.coordinate(rank, "pipeline"));
      }
    }
    EXPECT_EQ(std::ssize(groups), 12 / experts);
  }
}

TEST(ExpertSizes, CutOverTheSameRanksAsWhatIsBeside) {
  const Mesh mesh = two_stages();
  // Optimizer states over all four data and context ranks, so over eight ranks of the stage.
  const ShardSizes zero1{.optimizer = 4, .ranks = 4};
  EXPECT_EQ(expert_sizes(layout_of(2), zero1, mesh), (ShardSizes{.optimizer = 4, .ranks = 4}));
  EXPECT_EQ(expert_sizes(layout_of(4), zero1, mesh), (ShardSizes{.optimizer = 2, .ranks = 2}));
  EXPECT_EQ(expert_sizes(layout_of(8), zero1, mesh), (ShardSizes{.ranks = 1}));
  const ShardSizes levels{.weights = 2, .gradients = 4, .optimizer = 4, .ranks = 4};
  EXPECT_EQ(expert_sizes(layout_of(4), levels, mesh), (ShardSizes{.gradients = 2, .optimizer = 2, .ranks = 2}));
}

TEST(ExpertSizes, RefuseWhatDoesNotFitWithValidNumbers) {
  const Mesh mesh = two_stages();
  EXPECT_THAT([&] { expert_sizes(layout_of(3), ShardSizes{.ranks = 4}, mesh); },
              ThrowsMessage<UserError>(HasSubstr("layout.experts = 3 does not fit the 8 ranks of a stage")));
  EXPECT_THAT([&] { expert_sizes(layout_of(16), ShardSizes{.ranks = 4}, mesh); },
              ThrowsMessage<UserError>(HasSubstr("use 1, 2, 4 or 8")));
}

}  // namespace
}  // namespace terrace::mesh
