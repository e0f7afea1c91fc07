// Compares the cost of whole runs with numbers worked out by hand.
#include "terrace/plan/time/run_cost.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/plan/small_gpt.h"
#include "tests/plan/small_machine.h"

namespace terrace::plan {
namespace {

// 100 steps of 8 samples of 16 tokens, which take 10 s each, with a checkpoint every 20 steps.
config::Config hundred_steps() {
  config::Config config = small_gpt(2);
  config.train.steps = 100;
  config.checkpoint.every = 20;
  return config;
}

Prediction ten_seconds() {
  Prediction prediction;
  prediction.samples = 8;
  prediction.items = 128;
  prediction.step_seconds = 10;
  prediction.parameters = 1000;
  return prediction;
}

// Eight devices fill two nodes.
Target eight_devices() { return {.machine = small_machine(), .software = {}, .devices = 8}; }

TEST(RunCost, TimeAndEnergyOfTheConfiguredSteps) {
  Target target = eight_devices();
  target.machine.device.power_watts = 50;
  const RunCost cost = run_cost(hundred_steps(), ten_seconds(), target);
  EXPECT_EQ(cost.steps, 100);
  EXPECT_DOUBLE_EQ(cost.items, 100 * 128);
  EXPECT_DOUBLE_EQ(cost.seconds, 1000);
  EXPECT_DOUBLE_EQ(cost.device_hours, 8 * 1000 / 3600.0);
  EXPECT_DOUBLE_EQ(cost.energy_joules.value(), 8 * 1000 * 50.0);
}

TEST(RunCost, RoundsItemsUpToWholeSteps) {
  const RunCost cost = run_cost(hundred_steps(), ten_seconds(), eight_devices(), 1000.0);
  EXPECT_EQ(cost.steps, 8);  // 7 steps have 896 tokens
  EXPECT_DOUBLE_EQ(cost.items, 8 * 128);
  EXPECT_DOUBLE_EQ(cost.seconds, 80);
  EXPECT_EQ(run_cost(hundred_steps(), ten_seconds(), eight_devices(), 128.0).steps, 1);
  EXPECT_EQ(run_cost(hundred_steps(), ten_seconds(), eight_devices(), 1.28e14).steps, 1'000'000'000'000);
}

// 4 samples for the first 40 of them, in 10 steps, then 8.
TEST(RunCost, CountsTheSamplesOfARampUpAndOfPhases) {
  config::Config config = hundred_steps();
  config.train.ramp_start = config.train.ramp_increment = 4;
  config.train.ramp_samples = 40;
  const RunCost ramped = run_cost(config, ten_seconds(), eight_devices());
  EXPECT_DOUBLE_EQ(ramped.items, 16 * (10 * 4 + 90 * 8));
  EXPECT_DOUBLE_EQ(ramped.seconds, (10 * 4 + 90 * 8) * 10 / 8.0);
  config.phases = {{.from_step = 51, .global_batch = 16}};
  EXPECT_DOUBLE_EQ(run_cost(config, ten_seconds(), eight_devices()).items, 16 * (10 * 4 + 40 * 8 + 50 * 16));
}

// One of two nodes fails every half hour. A failure takes 20 s to read 12,000 bytes and on average 10 steps, so that a
// share 120 / 1800 of the time is lost: 1000 s of steps take 1000 / (1 - 1 / 15) s.
TEST(RunCost, CountsTheWorkThatFailuresRepeat) {
  Target target = eight_devices();
  target.machine.node_failure_hours = 1;
  target.machine.storage.total_bandwidth = 600;
  const RunCost cost = run_cost(hundred_steps(), ten_seconds(), target);
  EXPECT_DOUBLE_EQ(cost.seconds, 1000 * 15 / 14.0);
  EXPECT_NEAR(cost.repeated_seconds.value(), 1000 / 14.0, 1e-9);
  EXPECT_DOUBLE_EQ(cost.restarts.value(), 1000 * 15 / 14.0 / 1800);
  EXPECT_DOUBLE_EQ(cost.checkpoint_interval_seconds, 200);
  EXPECT_DOUBLE_EQ(cost.device_hours, 8 * cost.seconds / 3600);
}

TEST(RunCost, NeverEndsWhereNodesFailBeforeACheckpoint) {
  Target target = eight_devices();
  target.machine.node_failure_hours = 0.05;  // 90 s between failures of which each takes 100 s
  const RunCost cost = run_cost(hundred_steps(), ten_seconds(), target);
  EXPECT_TRUE(std::isinf(cost.seconds));
  EXPECT_NE(text_of(cost, hundred_steps(), target).find("never ends: 2 nodes fail more often"), std::string::npos);
  EXPECT_TRUE(json_of(cost, hundred_steps())["seconds"].is_null());
}

TEST(RunCost, NamesWhatTheMachinesDescriptionLacks) {
  Target target = eight_devices();
  target.machine.file = "ours.toml";
  const auto text = [&](const config::Config& config) {
    return text_of(run_cost(config, ten_seconds(), target), config, target);
  };
  EXPECT_EQ(
      text(hundred_steps()),
      "    100 steps of 1.28e+04 tokens: 16 min 40 s, 2.22 device-hours\n"
      "    not known from ours.toml: the energy (no power in [device]) and the restarts (no node_failure_time)\n");
  const Json json = json_of(run_cost(hundred_steps(), ten_seconds(), target), hundred_steps());
  for (const char* unknown : {"energy_joules", "restarts", "repeated_seconds"}) EXPECT_TRUE(json[unknown].is_null());
  target.machine.device.power_watts = 50;
  target.machine.node_failure_hours = 1;
  EXPECT_EQ(text(hundred_steps()),
            "    100 steps of 1.28e+04 tokens: 17 min 39 s, 2.35 device-hours, 118 Wh\n"
            "    0.588 restarts after failures of 2 nodes, which repeat 58.8 s of this time with a checkpoint every 20 "
            "steps (3 min 20 s)\n");
  config::Config without = hundred_steps();
  without.checkpoint.every = 0;
  EXPECT_EQ(text(without),
            "    100 steps of 1.28e+04 tokens: 16 min 40 s, 2.22 device-hours, 111 Wh\n"
            "    0.556 restarts after failures of 2 nodes, each from the first step, as checkpoint.every = 0 writes no "
            "checkpoint before the end\n");
}

}  // namespace
}  // namespace terrace::plan
