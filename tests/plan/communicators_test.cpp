// Tests the count of communicators of small layouts by hand, and what their memory does to a plan.
#include "terrace/plan/memory/communicators.h"

#include <gtest/gtest.h>

#include "terrace/plan/memory/memory_table.h"
#include "terrace/plan/prediction.h"
#include "terrace/plan/report/plan_report.h"
#include "tests/plan/small_gpt.h"
#include "tests/plan/small_machine.h"

namespace terrace::plan {
namespace {

constexpr double one_mib = 1024 * 1024;

// NCCL on 4 A100: 688 MiB of a communicator of three and more members, 544 of two, 24 channels.
constexpr machine::Communicators of_a100{.bytes = 688 * one_mib, .pair_bytes = 544 * one_mib, .channels = 24};

Target target_of(int64_t devices) { return {.machine = small_machine(), .software = {}, .devices = devices}; }

CommunicatorCount count_of(const config::LayoutConfig& layout, int64_t devices, int64_t stage = 0) {
  config::Config config = small_gpt(4, 32, 8);
  config.layout = layout;
  config.train.global_batch = 16;
  return communicators_of(planned_run(config, target_of(devices)), stage);
}

TEST(Communicators, OfOneRankAreNone) { EXPECT_EQ(count_of({}, 1), CommunicatorCount{}); }

// The replicas' sums, all data-parallel ranks, and all ranks twice.
TEST(Communicators, OfPlainDataParallelismHaveAllRanks) {
  EXPECT_EQ(count_of({}, 4), (CommunicatorCount{.groups = 4}));
  EXPECT_EQ(count_of({}, 2), (CommunicatorCount{.pairs = 4}));
}

// Weights, sums of gradients, data, all ranks twice; the update and the sums over replicas have one rank.
TEST(Communicators, OfZero3) {
  EXPECT_EQ(count_of({.sharding = config::Sharding::zero3}, 4), (CommunicatorCount{.groups = 5}));
}

// Pairs along each axis: tensor, pipeline, replicas, data; four ranks hold a model; all eight ranks twice. Each of two
// stages sends and receives once, and both hold the tied matrix.
TEST(Communicators, OfThreeAxes) {
  const config::LayoutConfig layout{.pipeline = 2, .tensor = 2};
  for (const int64_t stage : {0, 1}) {
    EXPECT_EQ(count_of(layout, 8, stage), (CommunicatorCount{.groups = 3, .pairs = 5, .directions = 2})) << stage;
  }
  // In a pipeline of four stages, those in the middle have four directions, and do not hold the matrix.
  const config::LayoutConfig longer{.pipeline = 4, .tensor = 2};
  EXPECT_EQ(count_of(longer, 8, 1).directions, 4);
  EXPECT_EQ(count_of(longer, 8, 0).directions, 2);
  EXPECT_EQ(count_of(longer, 8, 0).pairs, count_of(longer, 8, 1).pairs + 1);
}

TEST(CommunicatorBytes, AreThoseOfEachKind) {
  EXPECT_EQ(communicator_bytes({.groups = 3, .pairs = 5, .directions = 6}, of_a100),
            (3 * 688 + 5 * 544 + 6 * 544 * 4 / 24.0) * one_mib);
  EXPECT_EQ(communicator_bytes({.groups = 3, .pairs = 5, .directions = 6}, {}), 0);
  EXPECT_EQ(communicator_bytes({.groups = 1, .pairs = 1, .directions = 1}, {.bytes = 100, .channels = 2}), 300);
}

// They are no part of the memory of tensors, as torch counts it, but must fit the device.
TEST(CommunicatorBytes, MustFitBesideTheTensors) {
  const config::Config config = small_gpt(4);
  Target target = target_of(4);
  const Prediction without = predict(config, target);
  const double tensors = without.fullest().memory.total();
  EXPECT_EQ(without.fullest().communicator_bytes, 0);
  target.machine.communicators = {.bytes = 1000};
  target.machine.device.memory_bytes = tensors + 4000;
  const Prediction with = predict(config, target);
  EXPECT_TRUE(with.feasible());
  EXPECT_EQ(with.fullest().memory.total(), tensors);
  EXPECT_EQ(with.fullest().needed_bytes(), tensors + 4000);
  EXPECT_EQ(with.step_seconds, without.step_seconds);
  EXPECT_EQ(memory_table(without, config).find("communicators"), std::string::npos);
  EXPECT_NE(memory_table(with, config).find("    communicators "), std::string::npos);
  target.machine.device.memory_bytes -= 1;
  const Prediction short_of_one = predict(config, target);
  EXPECT_NE(short_of_one.reason.find(", and 4 communicators 3.9 KiB"), std::string::npos) << short_of_one.reason;
  const Json json = json_of(make_plan(config, target));
  EXPECT_EQ(json["stages"][0]["communicators"],
            (Json{{"groups", 4}, {"pairs", 0}, {"directions", 0}, {"bytes", 4000.0}}));
}

}  // namespace
}  // namespace terrace::plan
