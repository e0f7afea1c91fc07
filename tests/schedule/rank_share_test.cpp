// Tests the mesh of a configuration's layout.
#include "terrace/schedule/rank_share.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/config/family.h"
#include "terrace/schedule/description.h"

namespace terrace::schedule {
namespace {

TEST(MeshOf, AxesInTheOrderOfTheLayout) {
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

TEST(MicroBatchOf, ShareOfARankUnlessGiven) {
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

TEST(MicroBatchOf, LargestOneIfSharesAreUnequal) {
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

// Samples of 1.5 atoms and 10 edges on average.
class UnequalSamples : public Description {
 public:
  UnitTable unit_table(const config::Config&, const UnitTableOptions& options) const override {
    return {{.name = "all", .forward_flops = static_cast<double>(options.sizes.at("atoms"))}};
  }
  SampleSizes sample_sizes(const config::Config&) const override {
    return {.average = {{"atoms", 1.5}, {"edges", 10}}, .largest = {{"atoms", 4}, {"edges", 40}}};
  }
};

class MicroBatchSizesOf : public testing::Test {
 protected:
  MicroBatchSizesOf() {
    family_.settings.equal_shares = false;
    family_.settings.sizes = {"atoms", "edges"};
    family_.items = "atoms";
    family_.description = &description_;
    config_ = config::config_of(family_);
    config_.train.global_batch = 20;
  }

  UnequalSamples description_;
  config::Family family_;
  config::Config config_;
};

TEST_F(MicroBatchSizesOf, SizesOfAverageAndOfLargestSamples) {
  config_.train.micro_batch = 4;
  const MicroBatchSizes sizes = micro_batch_sizes_of(config_, 1);
  EXPECT_EQ(sizes.average, (MicroBatchSize{.samples = 4, .sizes = {{"atoms", 6}, {"edges", 40}}}));
  EXPECT_EQ(sizes.largest, (MicroBatchSize{.samples = 4, .sizes = {{"atoms", 16}, {"edges", 160}}}));
  // Seven samples a rank in two micro-batches: 20 / 6 of them are in one on average.
  EXPECT_EQ(micro_batch_sizes_of(config_, 3).average,
            (MicroBatchSize{.samples = 4, .sizes = {{"atoms", 5}, {"edges", 33}}}));
}

TEST_F(MicroBatchSizesOf, FillABudget) {
  config_.train.micro_batch_sizes = {{"atoms", 8}};
  // Five samples have 7.5 atoms.
  EXPECT_EQ(micro_batch_of(config_, 2), 5);
  EXPECT_EQ(pipeline_of(config_, 2).micro_batches, 2);
  const MicroBatchSizes sizes = micro_batch_sizes_of(config_, 2);
  EXPECT_EQ(sizes.average, (MicroBatchSize{.samples = 5, .sizes = {{"atoms", 8}, {"edges", 50}}}));
  EXPECT_EQ(sizes.largest, (MicroBatchSize{.samples = 5, .sizes = {{"atoms", 8}, {"edges", 200}}}));
  config_.train.micro_batch_sizes = {{"atoms", 8}, {"edges", 29}};
  EXPECT_EQ(micro_batch_of(config_, 2), 2);
  // More than all samples of a rank is no limit, and a sample must pass.
  config_.train.micro_batch_sizes = {{"atoms", 1'000'000'000'000'000}};
  EXPECT_EQ(micro_batch_of(config_, 2), 10);
  EXPECT_EQ(micro_batch_sizes_of(config_, 2).largest.sizes.at("atoms"), 40);
  config_.train.micro_batch_sizes = {{"atoms", 1}};
  EXPECT_EQ(micro_batch_of(config_, 2), 1);
}

TEST_F(MicroBatchSizesOf, FilledInForATableWithoutSizes) {
  EXPECT_EQ(unit_table(config_, {.samples = 4}).front().forward_flops, 6);
  EXPECT_EQ(unit_table(config_, {.samples = 4, .sizes = {{"atoms", 0}}}).front().forward_flops, 0);
  EXPECT_EQ(average_items(config_, 5), 8);
  family_.items = "samples";
  EXPECT_EQ(average_items(config_, 5), 5);
}

}  // namespace
}  // namespace terrace::schedule
