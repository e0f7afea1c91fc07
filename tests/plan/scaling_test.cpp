// Checks scaling tables against single predictions and against what must hold without links.
#include "terrace/plan/layouts/scaling.h"

#include <gtest/gtest.h>

#include "tests/plan/small_gpt.h"
#include "tests/plan/small_machine.h"

namespace terrace::plan {
namespace {

config::Config two_layers() {
  config::Config config = small_gpt(2);
  config.train.global_batch = 24;
  return config;
}

TEST(Scaling, PredictionForEachNumberOfDevices) {
  const Target target{.machine = small_machine(), .software = {}, .devices = 1};
  const Scaling table = scaling(two_layers(), target, {2, 4, 8});
  ASSERT_EQ(table.weak.size(), 3);
  ASSERT_EQ(table.strong.size(), 3);
  EXPECT_EQ(table.weak[2].global_batch, 96);
  EXPECT_EQ(table.strong[2].global_batch, 24);
  Target eight = target;
  eight.devices = 8;
  EXPECT_EQ(table.strong[2].prediction.step_seconds, predict(two_layers(), eight).step_seconds);
  EXPECT_EQ(table.weak[0].efficiency, 1);
  EXPECT_LT(table.strong[2].efficiency, table.weak[2].efficiency);
}

TEST(Scaling, WeakScalingIsPerfectWhereLinksTakeNoTime) {
  const Target target{.machine = computing_machine(), .software = {}, .devices = 1};
  for (const ScalingPoint& point : scaling(two_layers(), target, {1, 2, 4}).weak) {
    EXPECT_NEAR(point.efficiency, 1, 1e-9);
  }
}

PublishedErrors errors_of(const std::string& kind, double lowest, double highest, double ratio_error) {
  return {.kind = kind,
          .runs = 5,
          .lowest = lowest,
          .highest = highest,
          .ratio_error = ratio_error,
          .most_devices = 64,
          .most_parameters = 1'000'000'000,
          .families = {"gpt"},
          .machines = {"small"},
          .programs = {"p"}};
}

// Nodes have four devices, so the kind changes from four devices to eight.
TEST(Scaling, EachRowAndItsEfficiencyHaveIntervals) {
  const Target target{.machine = small_machine(), .software = {}, .devices = 1};
  const std::vector<PublishedErrors> errors = {errors_of("one stage in one node", -0.2, 0.25, 0.1),
                                               errors_of("one stage over nodes", -0.1, 0.05, 0.02)};
  const Scaling table = scaling(two_layers(), target, {2, 4, 8}, errors);
  for (const std::vector<ScalingPoint>* points : {&table.weak, &table.strong}) {
    const ScalingPoint &two = (*points)[0], &four = (*points)[1], &eight = (*points)[2];
    EXPECT_DOUBLE_EQ(two.interval.shortest_seconds, two.prediction.step_seconds / 1.25);
    EXPECT_DOUBLE_EQ(two.interval.longest_seconds, two.prediction.step_seconds / 0.8);
    EXPECT_DOUBLE_EQ(eight.interval.longest_seconds, eight.prediction.step_seconds / 0.9);
    EXPECT_FALSE(two.efficiency_interval) << "it is the base";
    EXPECT_DOUBLE_EQ(four.efficiency_interval->lowest, four.efficiency / 1.1);
    EXPECT_DOUBLE_EQ(four.efficiency_interval->highest, four.efficiency * 1.1);
    EXPECT_TRUE(four.efficiency_interval->shares_errors);
    EXPECT_DOUBLE_EQ(eight.efficiency_interval->lowest, eight.efficiency * 0.9 / 1.25);
    EXPECT_DOUBLE_EQ(eight.efficiency_interval->highest, eight.efficiency * 1.05 / 0.8);
    EXPECT_FALSE(eight.efficiency_interval->shares_errors);
  }
  const Json json = json_of(table);
  EXPECT_TRUE(json["weak"][0]["efficiency_interval"].is_null());
  EXPECT_EQ(json["weak"][2]["efficiency_interval"]["shares_errors"], false);
  EXPECT_EQ(json["strong"][1]["interval"]["kind"], "one stage in one node");
  const std::string text = text_of(table, "tokens");
  EXPECT_NE(
      text.find("\nlayouts on 8 devices are of another kind (one stage over nodes) than on 2 (one stage in one node): "
                "published"),
      std::string::npos)
      << text;
}

TEST(Scaling, SaysWhyARowHasNoInterval) {
  const Target target{.machine = small_machine(), .software = {}, .devices = 1};
  const Scaling table = scaling(two_layers(), target, {2, 8}, {errors_of("one stage in one node", -0.2, 0.25, 0.1)});
  EXPECT_TRUE(table.weak[0].interval.outside.empty());
  EXPECT_FALSE(table.weak[1].efficiency_interval);
  EXPECT_NE(text_of(table, "tokens")
                .find("no interval with 8 devices, outside what was compared: no run was compared whose layout is of "
                      "the kind \"one stage "
                      "over nodes\"\n"),
            std::string::npos);
}

TEST(Scaling, SaysWhyNoNumberFits) {
  Target target{.machine = small_machine(), .software = {}, .devices = 1};
  EXPECT_EQ(why_none_fits(scaling(two_layers(), target, {1, 2})), "");
  EXPECT_EQ(why_none_fits(scaling(two_layers(), target, {1, 7})), "");  // one of them does
  const std::string left_out = why_none_fits(scaling(two_layers(), target, {7}));
  EXPECT_EQ(left_out.find("no number of devices fits: 7 devices with a global batch of 24: "), 0) << left_out;
  target.machine.device.memory_bytes = 1000;
  const Scaling table = scaling(two_layers(), target, {1, 2});
  EXPECT_EQ(why_none_fits(table), "no number of devices fits: with 1 device " + table.weak[0].prediction.reason);
}

TEST(Scaling, SaysWhyANumberIsLeftOut) {
  const Target target{.machine = small_machine(), .software = {}, .devices = 1};
  const Scaling table = scaling(two_layers(), target, {1, 7});
  ASSERT_EQ(table.left_out.size(), 1);  // 24 sequences among 7 ranks; 168 are divisible
  EXPECT_NE(table.left_out[0].find("7 devices with a global batch of 24: "), std::string::npos);
  EXPECT_EQ(table.weak.size(), 2);
  EXPECT_EQ(scaling(two_layers(), target, {7}).left_out.size(), 1);  // as the first number it is the same in both
}

}  // namespace
}  // namespace terrace::plan
