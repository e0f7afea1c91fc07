// Tests what is said of groups of tensor ranks that leave a node or a package.
#include "terrace/plan/time/tensor_reach.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "terrace/plan/report/plan_page.h"
#include "terrace/plan/report/plan_report.h"
#include "tests/plan/small_gpt.h"
#include "tests/plan/small_machine.h"

namespace terrace::plan {
namespace {

config::Config with_tensor(int64_t tensor) {
  config::Config config = small_gpt(4, 32, 8);
  config.layout.tensor = tensor;
  return config;
}

Target on_nodes(int64_t devices) { return {.machine = small_machine(), .software = {}, .devices = devices}; }

std::optional<TensorReach> reach_of(const config::Config& config, const Target& target) {
  return tensor_reach(config, target, predict(config, target));
}

TEST(TensorReach, NothingToSayOfOneTensorRankOrAPair) {
  EXPECT_FALSE(reach_of(with_tensor(1), on_nodes(8)));
  const std::optional<TensorReach> pair = reach_of(with_tensor(2), on_nodes(8));
  ASSERT_TRUE(pair);
  EXPECT_FALSE(pair->leaves_domain);
  EXPECT_EQ(pair->warning(), "");
  EXPECT_TRUE(pair->smaller.empty());
  EXPECT_EQ(text_of(*pair, "tokens"), "");
}

// Pairs of 2 and nodes of 4: groups of 4 leave their pairs, groups of 8 their nodes too.
TEST(TensorReach, ComparesTheLargestSizeInsideEachTierThatGroupsLeave) {
  const std::optional<TensorReach> node = reach_of(with_tensor(4), on_nodes(8));
  ASSERT_TRUE(node);
  EXPECT_FALSE(node->leaves_domain);
  ASSERT_EQ(node->smaller.size(), 1u);
  EXPECT_EQ(node->smaller[0].tensor, 2);
  EXPECT_EQ(node->smaller[0].tier, "pair");
  const std::optional<TensorReach> two_nodes = reach_of(with_tensor(8), on_nodes(8));
  ASSERT_TRUE(two_nodes);
  EXPECT_TRUE(two_nodes->leaves_domain);
  EXPECT_EQ(two_nodes->domain, "node");
  EXPECT_EQ(two_nodes->domain_devices, 4);
  ASSERT_EQ(two_nodes->smaller.size(), 2u);
  EXPECT_EQ(two_nodes->smaller[0].tensor, 4);
  EXPECT_EQ(two_nodes->smaller[0].tier, "node");
  EXPECT_EQ(two_nodes->smaller[1].tensor, 2);
}

// The four devices that tensor 2 leaves over are 4 data-parallel ranks, 2 with 2 stages, or 4 stages.
TEST(TensorReach, TakesTheFastestDivisionOfTheDevicesThatAreLeftOver) {
  const Target target = on_nodes(8);
  const std::optional<TensorReach> reach = reach_of(with_tensor(8), target);
  ASSERT_TRUE(reach && reach->smaller[1].fastest);
  double least = 1e30;
  for (const int64_t stages : {1, 2, 4}) {
    config::Config config = with_tensor(2);
    config.layout.pipeline = stages;
    least = std::min(least, predict(config, target).step_seconds);
  }
  const Change& fastest = *reach->smaller[1].fastest;
  EXPECT_EQ(fastest.prediction.step_seconds, least);
  EXPECT_EQ(fastest.gain, 1 - least / reach->step_seconds);
  EXPECT_EQ(fastest.config.train.global_batch, 8);
}

// One sequence cannot be divided between two data-parallel ranks, so that two stages are made.
TEST(TensorReach, LeavesOutDivisionsThatTheBatchDoesNotAllow) {
  config::Config config = with_tensor(8);
  config.train.global_batch = 1;
  const std::optional<TensorReach> reach = reach_of(config, on_nodes(8));
  ASSERT_TRUE(reach && reach->smaller[0].fastest);
  EXPECT_EQ(reach->smaller[0].fastest->settings, (std::vector<std::string>{"layout.pipeline=2", "layout.tensor=4"}));
}

TEST(TensorReach, SaysThatNoSmallerGroupsFitTheMemory) {
  Target target = on_nodes(8);
  const double needed = predict(with_tensor(8), target).fullest().memory.total();
  target.machine.device.memory_bytes = needed;
  // Without sharding tensor 4 has twice the weights on each data-parallel rank, and more beside the weights in stages.
  config::Config config = with_tensor(8);
  config.train.global_batch = 2;
  const std::optional<TensorReach> reach = reach_of(config, target);
  ASSERT_TRUE(reach);
  ASSERT_FALSE(reach->smaller[0].fastest);
  EXPECT_TRUE(reach->warning().ends_with("; no layout with tensor 4, which stays inside, fits the memory"));
  EXPECT_EQ(json_of(*reach, "tokens")["smaller"][0]["fits"], false);
}

// The order of the axes puts ranks of a group four devices apart: only one tensor rank stays inside then.
TEST(TensorReach, FollowsTheOrderOfTheAxes) {
  config::Config config = with_tensor(2);
  config.layout.order = {"tensor", "pipeline", "data"};
  const std::optional<TensorReach> reach = reach_of(config, on_nodes(8));
  ASSERT_TRUE(reach);
  EXPECT_TRUE(reach->leaves_domain);
  ASSERT_EQ(reach->smaller.size(), 1u);
  EXPECT_EQ(reach->smaller[0].tensor, 1);
  EXPECT_EQ(reach->smaller[0].tier, "node");
}

// Groups 0 1 2 | 3 4 5 on nodes of four devices.
TEST(TensorReach, SaysWhereOnlySomeGroupsLeaveTheNode) {
  config::Config config = small_gpt(4);
  models::gpt::model_of(config).vocabulary_multiple = 24;
  models::gpt::derive(models::gpt::model_of(config));
  config.layout.tensor = 3;
  config.train.global_batch = 12;
  const std::optional<TensorReach> reach = reach_of(config, on_nodes(12));
  ASSERT_TRUE(reach);
  EXPECT_TRUE(reach->leaves_domain);
  EXPECT_FALSE(reach->first_leaves_domain);
  EXPECT_TRUE(
      reach->warning().starts_with("some groups of 3 tensor ranks leave the node (4 devices), but not the "
                                   "first one, from which times are computed"))
      << reach->warning();
}

TEST(TensorReach, MachineWithoutNodesHasItsInnermostTierForADomain) {
  Target target{.machine = machine_with_one_tier(), .software = {}, .devices = 8};
  EXPECT_FALSE(reach_of(with_tensor(8), target)->leaves_domain);
  target.machine.tiers.insert(target.machine.tiers.begin(),
                              {.name = "board", .devices = 4, .link_bandwidth = 10, .devices_per_link = 1});
  const std::optional<TensorReach> reach = reach_of(with_tensor(8), target);
  EXPECT_TRUE(reach->leaves_domain);
  EXPECT_EQ(reach->domain, "board");
}

TEST(TensorReach, WarningInTextJsonAndPage) {
  const Plan plan = make_plan(with_tensor(8), on_nodes(8));
  ASSERT_TRUE(plan.tensor_reach);
  const std::string warning = plan.tensor_reach->warning();
  const Change& inside = *plan.tensor_reach->smaller[0].fastest;
  EXPECT_TRUE(warning.starts_with("the groups of 8 tensor ranks leave the node (4 devices): the step takes "));
  EXPECT_NE(warning.find(fmt::format("{:.2f} times as long as with tensor 4, which stays inside: ",
                                     plan.prediction.step_seconds / inside.prediction.step_seconds)),
            std::string::npos)
      << warning;
  const std::string text = text_of(plan);
  EXPECT_NE(text.find("warning: " + warning + "\n"), std::string::npos);
  EXPECT_NE(text.find("    tensor 4, inside a node     step "), std::string::npos) << text;
  EXPECT_NE(text.find(": " + options_of(inside) + "\n"), std::string::npos) << text;
  const Json json = json_of(plan)["tensor_groups"];
  EXPECT_EQ(json["warning"], warning);
  EXPECT_EQ(json["leaves_domain"], true);
  EXPECT_EQ(json["smaller"][0]["tokens_per_second"], inside.prediction.items_per_second());
  EXPECT_EQ(json["smaller"][0]["set"], inside.settings);
  EXPECT_EQ(json["smaller"][0]["speedup"], plan.prediction.step_seconds / inside.prediction.step_seconds);
  const observe::PlanStatements said = statements_of(plan, "");
  EXPECT_EQ(said.warnings, std::vector<std::string>{warning});
  EXPECT_EQ(said.facts.back().first, "tensor 2, inside a pair");
  EXPECT_TRUE(json_of(make_plan(with_tensor(1), on_nodes(8)))["tensor_groups"].is_null());
}

}  // namespace
}  // namespace terrace::plan
