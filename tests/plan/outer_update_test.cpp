// Compares what outer updates of copies take with sums worked out by hand.
#include "terrace/plan/time/outer_update.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "terrace/plan/memory/stage_memory.h"
#include "terrace/plan/prediction.h"
#include "tests/plan/small_gpt.h"
#include "tests/plan/small_machine.h"

namespace terrace::plan {
namespace {

// Two copies of two ranks each.
config::Config two_copies(int64_t outer_every) {
  config::Config config = small_gpt(4, 48, 4);
  config.layout.sharding = config::Sharding::hybrid;
  config.layout.shard_group = 2;
  config.layout.outer_every = outer_every;
  return config;
}

int64_t padded_elements(const PlannedRun& run) {
  int64_t sum = 0;
  for (const int64_t segment : run.stages.front().held) sum += run.padded_elements(segment);
  return sum;
}

TEST(OuterUpdate, KeepsCommonWeightsAndMomentum) {
  const PlannedRun without(two_copies(0), 4, 4), with(two_copies(8), 4, 4);
  EXPECT_EQ(
      stage_memory(with, 0, {}).of(MemoryKind::optimizer) - stage_memory(without, 0, {}).of(MemoryKind::optimizer),
      8.0 * static_cast<double>(with.stage_elements(0)) / 2);
  config::Config one_copy = two_copies(8);
  one_copy.layout.shard_group = 4;
  const PlannedRun alone(one_copy, 4, 4);
  EXPECT_FALSE(alone.sizes.has_local_copies());
  EXPECT_EQ(outer_update_bytes(alone, 0), 0);
}

// Two ranks exchange all that they hold in a ring: each sends 2 (R - 1) / R times its bytes. In int8 a rank sends half
// of its payload and then that of its sums.
TEST(OuterUpdate, SendsTheDifferencesOfARank) {
  const PlannedRun run(two_copies(8), 4, 4);
  const auto part = static_cast<double>(padded_elements(run)) / 2;
  EXPECT_DOUBLE_EQ(outer_update(run, 0, small_machine()).bytes, 4 * part);
  config::Config in_int8 = two_copies(8);
  in_int8.layout.outer_type = config::WireType::int8;
  const PlannedRun quantized(in_int8, 4, 4);
  const auto quantized_part = static_cast<double>(padded_elements(quantized)) / 2;
  EXPECT_DOUBLE_EQ(outer_update(quantized, 0, small_machine()).bytes, quantized_part + quantized_part / 256 * 4);
  // Payloads of the largest segment, sent and received.
  int64_t largest = 0;
  for (const int64_t segment : quantized.stages.front().held) {
    largest = std::max(largest, quantized.padded_elements(segment) / 2);
  }
  EXPECT_EQ(outer_update_bytes(quantized, 0), 2 * (largest + largest / 256 * 4));
}

// A step of a copy has no sum over the copies, and the mean of their updates is added to it.
TEST(OuterUpdate, IsPartOfAStepOnAverage) {
  const Target target{.machine = small_machine(), .software = {}, .devices = 4};
  const auto predicted = [&](int64_t every) { return predict(two_copies(every), target); };
  const OuterUpdate update = outer_update(planned_run(two_copies(8), target), 0, small_machine());
  const auto waits_for_replicas = [](const Prediction& prediction) {
    const auto& exposed = prediction.stages.front().exposed;
    const auto found = std::ranges::find(exposed, std::string("replicas"), &ExposedTime::group);
    return found == exposed.end() ? ExposedTime{} : *found;
  };
  const Prediction eight = predicted(8), sixteen = predicted(16);
  EXPECT_DOUBLE_EQ(waits_for_replicas(eight).seconds, update.seconds / 8);
  EXPECT_DOUBLE_EQ(waits_for_replicas(sixteen).sent_bytes, update.bytes / 16);
  EXPECT_NEAR(eight.step_seconds - sixteen.step_seconds, update.seconds / 16, 1e-9 * eight.step_seconds);
  EXPECT_LT(predicted(1'000'000).step_seconds, predicted(0).step_seconds);
}

}  // namespace
}  // namespace terrace::plan
