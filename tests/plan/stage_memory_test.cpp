// Compares the memory of stages with values worked out by hand, and with what a published log of a 175B model shows.
#include "terrace/plan/memory/stage_memory.h"

#include <gtest/gtest.h>

#include "terrace/models/gpt/planned_gpt.h"
#include "terrace/models/gpt/settings/config.h"

namespace terrace::plan {
namespace {

using models::gpt::model_of;

constexpr double mebibyte = 1 << 20;

// The run of the log (github.com/sajal-vt/Megatron-DeepSpeed-ORNL): 128 dies, tensor 4, pipeline 16, data 2. The log
// shows memory after a step, when only this rank's part of the gradients is left: gradients are sharded here.
config::Config log_of_175b() {
  config::Config config = config::config_of(models::gpt::planned_family());
  model_of(config) = {.layers = 96, .width = 12288, .heads = 96, .sequence = 2048, .vocabulary = 50688};
  models::gpt::derive(model_of(config));
  config.train.global_batch = 320;
  config.train.micro_batch = 1;
  config.train.precision = config.train.gradient_type = config::Precision::fp16;
  config.train.recompute = config::Recompute::full;
  config.layout.tensor = 4;
  config.layout.pipeline = 16;
  config.layout.stage_layers = std::vector<int64_t>(16, 6);
  config.layout.sharding = config::Sharding::zero2;
  return config;
}

TEST(StageMemory, StatesEqualThePublishedLog) {
  const PlannedRun run(log_of_175b(), 128, 8);
  EXPECT_EQ(run.stage_elements(8), 2'718'480'384);
  const double states = stage_memory(run, 8, {}).states();
  EXPECT_DOUBLE_EQ(states, 9.0 * 2'718'480'384);  // 2 + 12 / 2 + 2 / 2 bytes a parameter
  EXPECT_NEAR(states / mebibyte, 23'360.9, 0.005 * 23'360.9);
}

TEST(StageMemory, GrowsByTheLogsBytesForEachLiveMicroBatch) {
  const PlannedRun run(log_of_175b(), 128, 8);
  machine::Software megatron;
  megatron.sends_parts = true;
  for (int64_t stage = 1; stage + 2 < 16; ++stage) {
    const StageMemory here = stage_memory(run, stage, megatron), next = stage_memory(run, stage + 1, megatron);
    EXPECT_EQ(here.live_micro_batches - next.live_micro_batches, 1);
    EXPECT_DOUBLE_EQ((here.of(MemoryKind::activations) - next.of(MemoryKind::activations)) / mebibyte, 300.0);
  }
}

TEST(StageMemory, KeepsTheInputsOfLayersInThisProgram) {
  const PlannedRun run(log_of_175b(), 128, 8);
  const StageMemory here = stage_memory(run, 8, {}), next = stage_memory(run, 9, {});
  EXPECT_DOUBLE_EQ((here.of(MemoryKind::activations) - next.of(MemoryKind::activations)) / mebibyte, 6 * 48.0);
}

// A layer has 24 heads of a rank with 2,048 x 2,048 scores of 5 bytes each, for one micro-batch.
TEST(StageMemory, CountsTheScoresThatAProgramKeeps) {
  config::Config config = log_of_175b();
  const machine::Software fused;
  machine::Software unfused;
  unfused.fused_attention = false;
  unfused.score_passes = 6;
  unfused.score_memory = 5;
  const auto more = [&](MemoryKind kind) {
    const PlannedRun run(config, 128, 8);
    return stage_memory(run, 15, unfused).of(kind) - stage_memory(run, 15, fused).of(kind);
  };
  const double scores = 24.0 * 2048 * 2048 * 5;
  EXPECT_DOUBLE_EQ(more(MemoryKind::activations), 0) << "recomputed";
  EXPECT_DOUBLE_EQ(more(MemoryKind::temporary), scores);
  config.train.recompute = config::Recompute::none;
  EXPECT_DOUBLE_EQ(more(MemoryKind::activations), 6 * scores) << "six layers of one live micro-batch";
  EXPECT_DOUBLE_EQ(more(MemoryKind::temporary), 0);
}

TEST(StageMemory, CountsLogitsCopiesAndWhatSelectiveRecomputeKeeps) {
  config::Config config = log_of_175b();
  config.train.recompute = config::Recompute::selective;
  const PlannedRun run(config, 128, 8);
  const StageMemory plain = stage_memory(run, 15, {});
  machine::Software software;
  software.logit_memory = 100;
  EXPECT_DOUBLE_EQ(stage_memory(run, 15, software).of(MemoryKind::temporary), 100.0 * 2048 * 50688 / 4);
  software = {};
  software.copies_gradients = true;  // of 16 bits, on two ranks
  EXPECT_DOUBLE_EQ(stage_memory(run, 8, software).of(MemoryKind::gradients), (2 + 4) / 2.0 * 2'718'480'384);
  software = {};
  software.selective_kept = 0.5;
  const double kept = stage_memory(run, 8, {}).of(MemoryKind::activations);
  EXPECT_NEAR(stage_memory(run, 8, software).of(MemoryKind::activations), kept / 2, 64);
  EXPECT_GT(plain.of(MemoryKind::temporary), 0);
}

TEST(StageMemory, CountsWholeWeightsWhileTheyAreGathered) {
  config::Config config = log_of_175b();
  config.layout.sharding = config::Sharding::zero3;
  const PlannedRun run(config, 128, 8);
  // Two layers, padded to 1,024 elements for each of two ranks: the one that is computed and the one that comes next.
  const int64_t layer = (2'718'480'384 / 6 + 2047) / 2048 * 2048;
  EXPECT_DOUBLE_EQ(stage_memory(run, 8, {}).of(MemoryKind::gathers), (2.0 + 2.0) * 2 * static_cast<double>(layer));
  EXPECT_DOUBLE_EQ(stage_memory(run, 8, {}).of(MemoryKind::weights), 2'718'480'384.0);
}

}  // namespace
}  // namespace terrace::plan
