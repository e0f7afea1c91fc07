// Tests the mesh of a configuration's layout.
#include "terrace/schedule/rank_share.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/config/family.h"

namespace terrace::schedule {
namespace {

TEST(MeshOf, HasItsAxesInTheOrderOfTheLayout) {
  config::LayoutConfig layout;
  const auto names = [&] {
    std::vector<std::string> names;
    const mesh::Mesh mesh = mesh_of(layout, 6, 3);
    for (const mesh::Axis& axis : mesh.axes()) names.push_back(axis.name);
    return names;
  };
  EXPECT_EQ(names(), (std::vector<std::string>{"pipeline", "data", "tensor"}));
  layout.order = {"tensor", "data", "pipeline"};
  EXPECT_EQ(names(), layout.order);
  EXPECT_EQ(mesh_of(layout, 6, 3).size("data"), 6);
  EXPECT_EQ(mesh_of(layout, 6, 3).group(1, "data").ranks, (std::vector<int64_t>{0, 1, 2, 3, 4, 5}));
}

TEST(MicroBatchOf, IsTheShareOfARankUnlessItIsGiven) {
  const config::Family family;
  config::Config config = config::config_of(family);
  config.train.global_batch = 24;
  for (const int64_t ranks : {1, 2, 3, 4}) EXPECT_EQ(micro_batch_of(config, ranks), 24 / ranks);
  config.train.micro_batch = 6;
  for (const int64_t ranks : {1, 2, 4}) EXPECT_EQ(micro_batch_of(config, ranks), 6);
  // A micro-batch that does not divide the share of a rank is refused, not reduced.
  EXPECT_THROW(micro_batch_of(config, 8), UserError);
  config.train.micro_batch = 24;
  EXPECT_EQ(micro_batch_of(config, 1), 24);
  EXPECT_THROW(micro_batch_of(config, 2), UserError);
}

TEST(MicroBatchOf, IsTheLargestOneOfAFamilyWithoutEqualShares) {
  config::Family family;
  family.settings.equal_shares = false;
  config::Config config = config::config_of(family);
  config.train.global_batch = 10;
  EXPECT_EQ(micro_batch_of(config, 3), 4);
  EXPECT_EQ(micro_batch_of(config, 16), 1);
  config.train.micro_batch = 3;
  EXPECT_EQ(micro_batch_of(config, 3), 3);
  EXPECT_EQ(pipeline_of(config, 3).micro_batches, 2);
}

}  // namespace
}  // namespace terrace::schedule
