// Compares the memory of stages that recompute a part of their layers with sums worked out by hand, and the fewest
// layers that fit with the smallest number that a plain search finds.
#include "terrace/plan/memory/fewest_recomputed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "terrace/machine/machine.h"
#include "terrace/models/gpt/planned_gpt.h"
#include "terrace/models/gpt/settings/config.h"
#include "terrace/plan/memory/communicators.h"
#include "terrace/plan/memory/stage_memory.h"
#include "terrace/plan/prediction.h"

namespace terrace::plan {
namespace {

using ::testing::ElementsAre;
using Word = config::RecomputeLayers::Word;

// Four layers on each of four stages, in 1F1B: stage s keeps 4 - s micro-batches.
config::Config four_stages() {
  config::Config config = config::config_of(models::gpt::planned_family());
  models::gpt::model_of(config) = {.layers = 16, .width = 256, .heads = 4, .sequence = 128, .vocabulary = 512};
  models::gpt::derive(models::gpt::model_of(config));
  config.train.global_batch = 16;
  config.train.micro_batch = 1;
  config.train.recompute = config::Recompute::full;
  config.layout.pipeline = 4;
  config.layout.stage_layers = {4, 4, 4, 4};
  return config;
}

PlannedRun with_layers(std::vector<int64_t> numbers, config::Config config = four_stages()) {
  config.layout.recompute_layers = {.word = Word::numbers, .numbers = std::move(numbers)};
  return {config, 4, 4};
}

// Bytes that one layer keeps for a micro-batch with this recompute.
double layer_bytes(const PlannedRun& run, config::Recompute recompute) {
  return static_cast<double>(schedule::kept_bytes(run.table(), run.partition().segment(5), recompute));
}

TEST(PartialRecompute, KeepsTheInputsOfSomeLayersAndAllOfTheOthers) {
  const PlannedRun run = with_layers({3, 2, 1, 0});
  const double input = layer_bytes(run, config::Recompute::full), all = layer_bytes(run, config::Recompute::none);
  EXPECT_EQ(stage_memory(run, 1, {}).of(MemoryKind::activations), 3 * (2 * input + 2 * all));
  EXPECT_EQ(stage_memory(run, 2, {}).of(MemoryKind::activations), 2 * (input + 3 * all));
  for (int64_t stage = 0; stage < 4; ++stage) {
    EXPECT_EQ(run.recomputed_layers(stage), 3 - stage);
    EXPECT_EQ(run.recomputable_layers(stage), 4);
  }
}

// The second layer's backward comes when the third and the fourth have released what they kept, which is more than what
// it brings back. So as much is needed for the backward of the fourth layer as without recompute.
TEST(PartialRecompute, BringsBackInThePlaceOfWhatIsReleased) {
  const double none = stage_memory(with_layers({0}), 1, {}).of(MemoryKind::temporary);
  EXPECT_EQ(stage_memory(with_layers({2}), 1, {}).of(MemoryKind::temporary), none);
  EXPECT_EQ(stage_memory(with_layers({3}), 1, {}).of(MemoryKind::temporary), none);
  EXPECT_GT(stage_memory(with_layers({4}), 1, {}).of(MemoryKind::temporary), none);
}

// All chunks of an interleaved stage have as many layers, and the first one keeps its micro-batches longest: to
// recompute its layers saves more than to recompute those of all chunks by their mean.
TEST(PartialRecompute, CountsChunksByTheirList) {
  config::Config config = four_stages();
  config.layout.schedule = config::PipelineSchedule::interleaved;
  config.layout.chunks = 2;
  config.layout.stage_layers = std::vector<int64_t>(8, 2);
  const auto bytes = [&](int64_t layers) {
    return stage_memory(with_layers({layers}, config), 1, {}).of(MemoryKind::activations);
  };
  EXPECT_LT(bytes(2), (bytes(0) + bytes(4)) / 2);
  EXPECT_LT(bytes(4), bytes(3));
  EXPECT_LT(bytes(1), bytes(0));
}

TEST(FewestRecomputed, IsTheSmallestNumberThatFits) {
  config::Config config = four_stages();
  const auto total = [&](int64_t layers, int64_t stage) {
    return stage_memory(with_layers({layers}), stage, {}).total();
  };
  for (const double share : {0.2, 0.5, 0.8, 1.1}) {
    std::vector<double> bytes;
    std::vector<int64_t> expected;
    for (int64_t stage = 0; stage < 4; ++stage) {
      bytes.push_back(total(4, stage) + share * (total(0, stage) - total(4, stage)));
      int64_t least = 0;
      while (least < 4 && total(least, stage) > bytes.back()) ++least;
      expected.push_back(least);
    }
    EXPECT_EQ(fewest_recomputed(config, bytes, 4, 4).numbers, expected) << share;
  }
  EXPECT_THAT(fewest_recomputed(config, {0, 0, 1e12, 0}, 4, 4).numbers, ElementsAre(4, 4, 0, 4));
}

TEST(FewestRecomputed, CountsTheCopyBesideTrainingOnCpus) {
  config::Config config = four_stages();
  const std::vector<double> without = needed_by_stage(config, {}, 4, 4);
  config.checkpoint.every = 10;
  const std::vector<double> with = needed_by_stage(config, {}, 4, 4);
  const PlannedRun run = with_layers({4});
  for (size_t stage = 0; stage < 4; ++stage) {
    EXPECT_EQ(with[stage] - without[stage],
              12.0 * static_cast<double>(run.stage_elements(static_cast<int64_t>(stage))));
  }
  config.train.device = "cuda";
  EXPECT_LT(needed_by_stage(config, {}, 4, 4)[1], with[1]);
}

// A device between what all layers and no layer need: the first stages recompute more, the step is shorter than with
// all layers, and every stage fits.
TEST(FewestRecomputed, FillsTheDevicesOfATarget) {
  config::Config config = four_stages();
  Target target{.machine = machine::load("dgx-a100-80gb"), .software = {}, .devices = 4};
  const Prediction all = predict(config, target);
  config.train.recompute = config::Recompute::none;
  const Prediction none = predict(config, target);
  config.train.recompute = config::Recompute::full;
  config.layout.recompute_layers = {.word = Word::fit};
  target.machine.device.memory_bytes =
      target.machine.device.reserved_bytes + (all.fullest().needed_bytes() + none.fullest().needed_bytes()) / 2;
  const Prediction fitted = predict(config, target);
  EXPECT_TRUE(fitted.feasible()) << fitted.reason;
  EXPECT_LT(fitted.step_seconds, all.step_seconds);
  EXPECT_LT(fitted.hardware_flops, all.hardware_flops);
  EXPECT_GT(fitted.hardware_flops, none.hardware_flops);
  EXPECT_GT(fitted.stages[0].recomputed_layers, fitted.stages[3].recomputed_layers);
  target.machine.device.memory_bytes *= 10;
  EXPECT_EQ(predict(config, target).step_seconds, none.step_seconds);
}

}  // namespace
}  // namespace terrace::plan
