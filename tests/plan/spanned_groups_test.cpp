// Tests what a plan says of jobs whose nodes lie in several groups of a dragonfly network, and what it predicts there.
#include "terrace/plan/report/spanned_groups.h"

#include <gtest/gtest.h>

#include "terrace/base/error.h"
#include "terrace/machine/over_groups.h"
#include "terrace/plan/prediction.h"
#include "terrace/plan/report/plan_report.h"
#include "tests/plan/small_gpt.h"
#include "tests/plan/small_machine.h"

namespace terrace::plan {
namespace {

// Nodes of 4 devices with two links of 5 bytes/s, four nodes a group, and four links of 5 bytes/s out of a group.
machine::Machine dragonfly() {
  machine::Machine machine = small_machine();
  machine.tiers.back() = {
      .name = "group", .devices = 16, .link_bandwidth = 5, .devices_per_link = 2, .latency_seconds = 1};
  machine.tiers.push_back(
      {.name = "network", .devices = 64, .link_bandwidth = 5, .devices_per_link = 4, .latency_seconds = 2});
  return machine;
}

std::string refusal(int64_t devices, int64_t groups, const machine::Machine& machine = dragonfly()) {
  try {
    machine::over_groups(machine, devices, groups);
    return "";
  } catch (const UserError& error) {
    return error.what();
  }
}

TEST(OverGroups, HaveTheJobsNodesAndTheirShareOfTheLinks) {
  // Eight nodes in four groups: two in each.
  const machine::Machine four = machine::over_groups(dragonfly(), 32, 4);
  EXPECT_EQ(four.devices_of("group"), 8);
  EXPECT_EQ(four.devices(), 64);
  machine::Machine same = dragonfly();
  same.tiers[2].devices = 8;
  EXPECT_EQ(four, same);
  EXPECT_EQ(machine::over_groups(dragonfly(), 32, 2), dragonfly());
  // Three nodes in two groups lie as 2 and 1.
  EXPECT_EQ(machine::over_groups(dragonfly(), 12, 2).devices_of("group"), 8);
}

// Eight data-parallel ranks of one node each: a ring passes 7 blocks over the links that one of them reaches. Two
// groups share four links each among 16 devices; four groups of two nodes have two.
TEST(OverGroups, ShareLinksAndPayTheLatencyBetweenGroups) {
  const std::vector<Algorithm> ring = {Algorithm::ring};
  const auto gather = [&](int64_t groups) {
    const machine::Machine machine = machine::over_groups(dragonfly(), 32, groups);
    const mesh::Group ranks = mesh::spaced_ranks("data", 0, 8, 4);
    return collective_time(CollectiveKind::all_gather, 80, place_of(ranks, machine, 32), machine, ring);
  };
  // Four such groups of ranks send 70 bytes out of a node, over two links of 5 bytes/s, and out of a group over four.
  EXPECT_EQ(gather(2).latency_seconds, 6 * 1 + 2 * 2 - 1);
  EXPECT_EQ(gather(2).seconds, 9 + 4 * 70.0 / 10);
  EXPECT_EQ(gather(4).latency_seconds, 4 * 1 + 4 * 2 - 1);
  EXPECT_EQ(gather(4).seconds, 11 + 4 * 70.0 / 10);
  // Four groups of one node each: the one link that a node has there carries all.
  const machine::Machine spread = machine::over_groups(dragonfly(), 16, 4);
  const CollectiveTime time = collective_time(CollectiveKind::all_gather, 40,
                                              place_of({.name = "", .ranks = {0, 4, 8, 12}}, spread, 16), spread, ring);
  EXPECT_EQ(time.latency_seconds, 3 * 2);
  EXPECT_EQ(time.seconds, 6 + 4 * 30.0 / 5);
}

TEST(OverGroups, RefusesWhatTheMachineDoesNotHave) {
  EXPECT_EQ(refusal(32, 1), "--groups 1: 8 nodes of small, which has 4 groups of 4 nodes, lie in 2 to 4 groups");
  EXPECT_EQ(refusal(32, 5), "--groups 5: 8 nodes of small, which has 4 groups of 4 nodes, lie in 2 to 4 groups");
  EXPECT_EQ(refusal(4, 2), "--groups 2: 1 nodes of small, which has 4 groups of 4 nodes, lie in 1");
  EXPECT_EQ(refusal(32, 2, small_machine()),
            "--groups 2: small has no tier \"group\"; leave --groups out, or name aurora, frontier or lumi");
}

TEST(SpannedGroups, SaysWhichAxesCrossThem) {
  config::Config config = small_gpt(4, 32, 8);
  config.layout.tensor = 4;
  config.layout.pipeline = 2;
  config.train.global_batch = 16;
  const Target target{.machine = dragonfly(), .software = {}, .devices = 32};
  const auto of = [&](const Target& on) { return spanned_groups(planned_run(config, on).mesh, on.machine); };
  const std::optional<SpannedGroups> two = of(target);
  ASSERT_TRUE(two);
  EXPECT_EQ(two->groups, 2);
  EXPECT_EQ(two->nodes_of_group, 4);
  // Stages are outermost, so that each of the two groups has one.
  EXPECT_EQ(two->across, std::vector<std::string>{"pipeline"});
  EXPECT_EQ(text_of(*two),
            "the nodes lie in 2 groups of 4: ranks along pipeline exchange data between them, those along data and "
            "tensor stay inside one");
  Target spread = target;
  spread.machine = machine::over_groups(target.machine, 32, 4);
  EXPECT_EQ(of(spread)->across, (std::vector<std::string>{"pipeline", "data"}));
  Target one = target;
  one.devices = 16;
  EXPECT_FALSE(of(one));
  EXPECT_FALSE(spanned_groups(planned_run(config, target).mesh, small_machine()));
  const Plan plan = make_plan(config, spread);
  EXPECT_EQ(json_of(plan)["network_groups"],
            (Json{{"groups", 4}, {"nodes_of_group", 2}, {"across", {"pipeline", "data"}}, {"inside", {"tensor"}}}));
  EXPECT_NE(text_of(plan).find("\nthe nodes lie in 4 groups of 2: ranks along pipeline and data exchange data between "
                               "them, those along tensor stay inside one\n"),
            std::string::npos);
  EXPECT_TRUE(json_of(make_plan(config, one))["network_groups"].is_null());
}

}  // namespace
}  // namespace terrace::plan
