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
