// Tests times to the same loss against values worked out by hand and against single predictions.
#include "terrace/plan/layouts/same_loss.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "terrace/base/error.h"
#include "terrace/observe/metrics.h"
#include "tests/plan/small_gpt.h"
#include "tests/plan/small_machine.h"
#include "tests/scratch_folder.h"

namespace terrace::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string refusal(const std::string& text) {
  try {
    noise_scale_of(text);
    return "";
  } catch (const UserError& error) {
    return error.what();
  }
}

TEST(NoiseScaleText, IsANumberOrTheFolderOfARun) {
  EXPECT_EQ(noise_scale_of("96").samples, 96);
  EXPECT_EQ(noise_scale_of("1.5e3").samples, 1500);
  EXPECT_EQ(noise_scale_of("96").source, "");
  const ScratchFolder scratch;
  const std::string folder = scratch.path().string();
  observe::MetricsWriter writer(folder, 0, {.names = {.items = "tokens"}});
  writer.write(observe::StepMetrics{.step = 1, .loss = 4});
  EXPECT_THAT(refusal(folder), HasSubstr("none of the 1 steps in " + folder + " measured it"));
  writer.write(observe::StepMetrics{.step = 2, .loss = 4, .noise_scale = 96.0});
  EXPECT_EQ(noise_scale_of(folder).samples, 96);
  EXPECT_EQ(noise_scale_of(folder).source, ", from " + folder + " at step 2");
}

TEST(NoiseScaleText, IsRefusedWithTheWayOut) {
  for (const char* number : {"0", "-3", "-inf", "inf", "1e300"}) {
    EXPECT_THAT(refusal(number), HasSubstr("must be above 0 and at most 1e+15 samples; give such as 512")) << number;
  }
  for (const char* text : {"nan", "96 sequences", "runs/there_is_no_such_run"}) {
    EXPECT_THAT(refusal(text), HasSubstr("is neither a number of samples nor the folder of a run")) << text;
  }
}

TEST(SameLossOfBatches, MultipliesTheTimeOfAStepByTheSteps) {
  // 0.7 times the steps (observe/noise_scale_test.cpp), each twice as long.
  const SameLoss to_loss = same_loss(96, 128, 4, 64, 2);
  EXPECT_DOUBLE_EQ(to_loss.steps, 0.7);
  EXPECT_DOUBLE_EQ(to_loss.samples, 1.4);
  EXPECT_DOUBLE_EQ(to_loss.seconds, 1.4);
}

TEST(SameLossOfBatches, TextOfAPlanComparesHalfAndTwiceTheBatch) {
  const GivenNoiseScale noise{.samples = 96};
  const std::string text = text_of(noise, 64, "sequences");
  EXPECT_THAT(text, HasSubstr("noise scale 96 sequences\n"));
  EXPECT_THAT(text, HasSubstr("the batch of 64 takes 2.5 times the fewest steps and 1.67 times the fewest sequences"));
  EXPECT_THAT(text, HasSubstr("a batch of 32       1.6 times its steps, 0.8 times its sequences\n"));
  EXPECT_THAT(text, HasSubstr("a batch of 128      0.7 times its steps, 1.4 times its sequences\n"));
  EXPECT_EQ(json_of(noise, 64)["steps_over_fewest"], 2.5);
}

// Where links take no time, a step takes as long on more devices with as many samples each, so the time to the loss is
// that of the steps.
TEST(SameLossOfScaling, TimeFallsLikeTheStepsWhereLinksTakeNoTime) {
  const Target target{.machine = computing_machine(), .software = {}, .devices = 1};
  config::Config config = small_gpt(2);
  config.train.global_batch = 24;
  const Scaling table = scaling(config, target, {1, 2, 4});
  const Json rows = json_of(GivenNoiseScale{.samples = 48}, table)["weak"];
  ASSERT_EQ(rows.size(), 3u);
  // 1 + 48/24 = 3, 1 + 48/48 = 2 and 1 + 48/96 = 1.5 times the fewest steps.
  const double steps[] = {1, 2.0 / 3, 0.5};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(rows[i]["steps"].get<double>(), steps[i], 1e-12);
    EXPECT_NEAR(rows[i]["seconds"].get<double>(), steps[i], 1e-9);
    EXPECT_NEAR(rows[i]["device_hours"].get<double>(), steps[i] * std::pow(2.0, i), 1e-9);
  }
  EXPECT_THAT(text_of(GivenNoiseScale{.samples = 48}, table, "sequences"),
              HasSubstr("first at the loss: 4 devices with a batch of 96, in 0.5 of the time and 2 times the "
                        "device-hours of 1 device"));
}

TEST(BestBatches, AreOrderedByTheTimeToTheSameLoss) {
  const Target target{.machine = small_machine(), .software = {}, .devices = 2};
  config::Config config = small_gpt(4, 48, 4);
  config.train.global_batch = 8;
  const std::vector<int64_t> batches = {4, 8, 16, 32};
  // A small batch is enough where the noise is small, and a large one pays where it is large.
  for (const double noise : {0.01, 1e6}) {
    const BestBatches best = best_batches(config, target, {}, {.samples = noise}, batches);
    ASSERT_EQ(best.batches.size(), batches.size());
    for (size_t i = 0; i < best.batches.size(); ++i) {
      const BatchLayout& one = best.batches[i];
      config::Config other = config;
      other.train.global_batch = one.batch;
      const double seconds = best_layouts(other, target, {}).layouts.front().prediction.step_seconds;
      EXPECT_DOUBLE_EQ(one.seconds_of_reference_step, seconds * same_loss(noise, one.batch, 1, 8, 1).steps);
      const BatchLayout& before = best.batches[i == 0 ? 0 : i - 1];
      EXPECT_GE(one.seconds_of_reference_step, before.seconds_of_reference_step);
    }
    EXPECT_EQ(best.batches.front().batch, noise < 1 ? 4 : 32);
  }
}

TEST(BestBatches, SayWhyABatchIsLeftOut) {
  const Target target{.machine = small_machine(), .software = {}, .devices = 2};
  config::Config config = small_gpt(4, 48, 4);
  config.train.global_batch = 8;
  BestOptions options;
  options.limits.allows = [](const config::Config& layout) { return layout.train.global_batch != 16; };
  const BestBatches best = best_batches(config, target, options, {.samples = 10}, {8, 16});
  ASSERT_EQ(best.batches.size(), 1u);
  EXPECT_EQ(best.batches[0].batch, 8);
  EXPECT_THAT(best.left_out, ElementsAre(HasSubstr("a batch of 16: no layout of this model")));
  EXPECT_THROW(best_batches(config, target, options, {.samples = 10}, {16}), UserError);
}

}  // namespace
}  // namespace terrace::plan
