// Coordinates, groups and reaches of grids, worked out by hand, and the errors for sizes that do not fit.
#include "terrace/mesh/mesh.h"

#include <gtest/gtest.h>

#include "terrace/base/error.h"

namespace terrace::mesh {
namespace {

using Ranks = std::vector<int64_t>;

TEST(Mesh, CountsTheInnermostAxisFastest) {
  const Mesh mesh(12, {{"pipeline", 2}, {"data", 3}, {"tensor", 2}}, {});
  EXPECT_EQ(mesh.coordinate(9, "pipeline"), 1);
  EXPECT_EQ(mesh.coordinate(9, "data"), 1);
  EXPECT_EQ(mesh.coordinate(9, "tensor"), 1);
  EXPECT_EQ(mesh.rank_at({1, 1, 1}), 9);
  EXPECT_EQ(mesh.group(9, "tensor").ranks, (Ranks{8, 9}));
  EXPECT_EQ(mesh.group(9, "data").ranks, (Ranks{7, 9, 11}));
  EXPECT_EQ(mesh.group(9, "pipeline").ranks, (Ranks{3, 9}));
  EXPECT_EQ(mesh.group(9, "data").name, "data");
  EXPECT_EQ(mesh.same_coordinate(9, "data", "others").ranks, (Ranks{2, 3, 8, 9}));
  EXPECT_EQ(mesh.same_coordinate(9, "tensor", "others").ranks, (Ranks{1, 3, 5, 7, 9, 11}));
  EXPECT_EQ(mesh.same_coordinate(9, "pipeline", "others").name, "others");
}

TEST(Mesh, TwoAxesCountAsOne) {
  const Mesh mesh(24, {{"pipeline", 2}, {"data", 3}, {"context", 2}, {"tensor", 2}}, {});
  const Mesh::Joined joined{.outer = "data", .inner = "context"};
  EXPECT_EQ(mesh.size(joined), 6);
  for (int64_t rank = 0; rank < mesh.size(); ++rank) {
    EXPECT_EQ(mesh.coordinate(rank, joined), 2 * mesh.coordinate(rank, "data") + mesh.coordinate(rank, "context"));
  }
  EXPECT_EQ(mesh.group(15, joined, "all").ranks, (Ranks{13, 15, 17, 19, 21, 23}));
  EXPECT_EQ(mesh.group(15, joined, "all").name, "all");
  EXPECT_EQ(mesh.same_coordinate(15, joined, "others").ranks, (Ranks{2, 3, 14, 15}));
  // Without the inner axis the outer one alone.
  const Mesh without(12, {{"pipeline", 2}, {"data", 3}, {"tensor", 2}}, {});
  EXPECT_FALSE(without.has("context"));
  EXPECT_EQ(without.size(joined), 3);
  EXPECT_EQ(without.group(9, joined, "data"), without.group(9, "data"));
  EXPECT_EQ(without.same_coordinate(9, joined, "others"), without.same_coordinate(9, "data", "others"));
}

TEST(Group, RanksAreSpacedAndCopiesShareThem) {
  const Group group = spaced_ranks("leaders", 2, 3, 4);
  EXPECT_EQ(group.ranks, (Ranks{2, 6, 10}));
  const Group copy = group;
  EXPECT_EQ(&copy.ranks.values(), &group.ranks.values());
  EXPECT_EQ(all_ranks("all", 3), (Group{"all", {0, 1, 2}}));
}

TEST(Mesh, EveryRankIsWhereItsCoordinatesSay) {
  const Mesh mesh(24, {{"tensor", 2}, {"pipeline", 4}, {"data", 3}}, {});
  for (int64_t rank = 0; rank < mesh.size(); ++rank) {
    EXPECT_EQ(mesh.rank_at(
                  {mesh.coordinate(rank, "tensor"), mesh.coordinate(rank, "pipeline"), mesh.coordinate(rank, "data")}),
              rank);
  }
}

TEST(Reach, SlowestLinkOfAGroup) {
  const Topology frontier{.ranks_per_pair = 2, .ranks_per_node = 8};
  EXPECT_EQ(reach_of({3}, frontier), Reach::rank);
  EXPECT_EQ(reach_of({2, 3}, frontier), Reach::pair);
  EXPECT_EQ(reach_of({1, 2}, frontier), Reach::node);
  EXPECT_EQ(reach_of({0, 7}, frontier), Reach::node);
  EXPECT_EQ(reach_of({7, 8}, frontier), Reach::network);
  // A pair does not extend beyond the end of a node with an odd number of ranks.
  EXPECT_EQ(reach_of({2, 3}, {.ranks_per_pair = 2, .ranks_per_node = 3}), Reach::network);
  EXPECT_EQ(reach_of({3, 4}, {.ranks_per_pair = 2, .ranks_per_node = 3}), Reach::pair);
}

TEST(Mesh, RefusesSizesThatDoNotMultiplyToTheRanks) {
  try {
    const Mesh refused(12, {{"pipeline", 2}, {"data", 3}, {"tensor", 1}}, {});
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "pipeline = 2 x data = 3 x tensor = 1 gives 6 ranks, and there are 12; start 6 ranks, or use data = "
                 "6");
  }
}

TEST(Overview, SaysGroupsAndReaches) {
  const Mesh mesh(4, {{"data", 4}}, {.ranks_per_pair = 2, .ranks_per_node = 4});
  EXPECT_EQ(overview(mesh, {{.name = "shard_weights", .ranks = {0, 1}}, {.name = "replicas", .ranks = {0}}}),
            "data                   4 ranks  node     0 1 2 3\n"
            "shard_weights          2 ranks  pair     0 1\n"
            "replicas               1 rank   itself   0\n");
}

}  // namespace
}  // namespace terrace::mesh
