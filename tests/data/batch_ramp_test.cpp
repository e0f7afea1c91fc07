// The ramp-up against a simulation step by step, and the edges of skipped ranges.
#include "terrace/data/order/batch_ramp.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace terrace::data {
namespace {

config::TrainConfig ramp(int64_t start, int64_t increment, int64_t samples, int64_t global_batch) {
  config::TrainConfig train;
  train.ramp_start = start;
  train.ramp_increment = increment;
  train.ramp_samples = samples;
  train.global_batch = global_batch;
  return train;
}

TEST(BatchRamp, EveryStepIsTheGlobalBatchIfThereIsNoRamp) {
  const BatchRamp flat(ramp(0, 0, 0, 7));
  EXPECT_EQ(flat.batch_size(1), 7);
  EXPECT_EQ(flat.batch_size(1'000'000), 7);
  EXPECT_EQ(flat.samples_before(1), 0);
  EXPECT_EQ(flat.samples_before(1'000'001), 7'000'000);
}

// Worked out by hand: two increments share 24 samples, so the batch is 4 below 12 samples, 8 below 24, then 12. Steps
// 1, 2, 3 draw 4 each (12), steps 4 and 5 draw 8 each (28), and from step 6 on 12.
TEST(BatchRamp, EqualsAnExampleWorkedOutByHand) {
  const BatchRamp batches(ramp(4, 4, 24, 12));
  const std::vector<int64_t> sizes = {4, 4, 4, 8, 8, 12, 12};
  const std::vector<int64_t> before = {0, 4, 8, 12, 20, 28, 40};
  for (size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_EQ(batches.batch_size(static_cast<int64_t>(i) + 1), sizes[i]) << "step " << i + 1;
    EXPECT_EQ(batches.samples_before(static_cast<int64_t>(i) + 1), before[i]) << "step " << i + 1;
  }
}

// The rule as it is written in words, applied step after step.
TEST(BatchRamp, EqualsASimulationAtEveryStep) {
  struct Numbers {
    int64_t start, increment, samples, global_batch;
  };
  for (const auto& [start, increment, samples, global_batch] : std::vector<Numbers>{
           {1, 1, 1, 2}, {1, 1, 100, 16}, {2, 3, 17, 11}, {16, 16, 1000, 64}, {8, 8, 5, 64}, {3, 5, 1, 103}}) {
    const BatchRamp batches(ramp(start, increment, samples, global_batch));
    const int64_t increments = (global_batch - start) / increment;
    int64_t drawn = 0;
    for (int64_t step = 1; step <= 200; ++step) {
      const int64_t size = start + increment * std::min(increments, drawn * increments / samples);
      ASSERT_EQ(batches.samples_before(step), drawn) << start << " " << increment << " " << samples << " step " << step;
      ASSERT_EQ(batches.batch_size(step), size) << start << " " << increment << " " << samples << " step " << step;
      drawn += size;
    }
    EXPECT_EQ(batches.batch_size(200), global_batch);
  }
}

TEST(BatchRamp, ReachesAnyStepAtOnceWithoutOverflow) {
  const BatchRamp batches(ramp(1, 1, 1'000'000'000'000'000, 100'001));
  const int64_t far = 1'000'000'000'000;
  EXPECT_EQ(batches.batch_size(far), 100'001);
  EXPECT_EQ(batches.samples_before(far + 1) - batches.samples_before(far), 100'001);
  // While the batch is 1, which lasts for 10^10 samples, step s has s - 1 samples before it.
  EXPECT_EQ(batches.samples_before(10'000'000'000), 9'999'999'999);
  EXPECT_EQ(batches.batch_size(10'000'000'000), 1);
  EXPECT_EQ(batches.batch_size(10'000'000'001), 2);
}

TEST(SkippedSteps, IncludeBothEndsOfEachRange) {
  config::TrainConfig train;
  EXPECT_FALSE(skipped(train, 1));
  train.skip_steps = {{10, 12}, {20, 20}};
  std::vector<int64_t> skips;
  for (int64_t step = 1; step <= 30; ++step) {
    if (skipped(train, step)) skips.push_back(step);
  }
  EXPECT_EQ(skips, (std::vector<int64_t>{10, 11, 12, 20}));
}

}  // namespace
}  // namespace terrace::data
