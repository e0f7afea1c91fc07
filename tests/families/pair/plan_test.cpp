// Plans and simulates pairs through the part of the family that a planner needs, without its model and data: predicted
// memory and times equal those worked out by hand.
#include <gtest/gtest.h>

#include <algorithm>

#include "terrace/plan/layouts/best.h"
#include "terrace/plan/memory/memory_need.h"
#include "terrace/plan/report/plan_report.h"
#include "terrace/plan/report/step_record.h"
#include "tests/families/pair/config.h"
#include "tests/families/pair/pair_family.h"
#include "tests/plan/small_machine.h"

namespace terrace::pair {
namespace {

const config::Family& planned_part() {
  static const config::Family part = [] {
    config::Family planned = family();
    planned.model = nullptr;
    planned.data = nullptr;
    return planned;
  }();
  return part;
}

config::Config planned_pairs(int64_t layers, int64_t global_batch) {
  config::Config config = config::config_of(planned_part());
  auto& model = config.model.get<ModelConfig>();
  model.layers = layers;
  model.width = 4;
  config.train.global_batch = global_batch;
  config.train.micro_batch = 1;
  return config;
}

plan::Target on_devices(int64_t devices) {
  return {.machine = plan::small_machine(), .software = {}, .devices = devices};
}

// Parameters: features 6 * 4 + 4, wide 4 * 4 + 4, narrow 4 * 3 + 3, output 4 + 1.
constexpr int64_t elements = 28 + 20 + 15 + 5;

// The seconds of one item at 100 bytes/s, which limit all products: every factor and result is read or written once in
// 4 bytes, a weight's gradient is read too, and the gradients of biases are read and written. The norm reads 4 bytes of
// each element, the update reads and writes 28.
TEST(PlannedPairs, OneDeviceComputesOneSampleAfterAnother) {
  const plan::Prediction prediction = predict(planned_pairs(1, 3), on_devices(1));
  // Features, the two products of the layer and the sum of its wide branch, output and losses.
  const double forward = 1.36 + (0.96 + 0.76 + 0.48) + (0.36 + 1.44);
  const double input_gradient = (0.96 + 0.76 + 2 * 0.48) + (0.36 + 1.44);
  const double weight_gradient = 2.32 + (1.60 + 1.24) + 0.52;
  const double bias_gradient = 0.48 + (0.48 + 0.36) + 0.12;
  const double sample = forward + input_gradient + weight_gradient + bias_gradient;
  EXPECT_EQ(prediction.parameters, elements);
  EXPECT_NEAR(prediction.step_seconds, 3 * sample + 0.32 * static_cast<double>(elements), 1e-9);
  EXPECT_EQ(prediction.items, 3);
}

TEST(PlannedPairs, OneDeviceHoldsStatesAndInputs) {
  const plan::Prediction prediction = predict(planned_pairs(1, 3), on_devices(1));
  // fp32 weights, gradients and two moments; six features, and the hidden state for both products of the layer.
  const double inputs = 4 * (6 + 2 * 4);
  EXPECT_DOUBLE_EQ(prediction.stages[0].memory.total(), 16.0 * elements + inputs);
}

// Samples of 2.5 items on average and of at most 4 in micro-batches of at most 12: four average samples fit.
config::Config planned_budget() {
  config::Config config = planned_pairs(1, 16);
  config.data.get<DataConfig>().average_items = 2.5;
  config.data.get<DataConfig>().largest_items = 4;
  config.train.micro_batch = 0;
  config.train.micro_batch_sizes = {{"items", 12}};
  return config;
}

TEST(PlannedPairs, AverageMicroBatchesTakeTimeAndTheLargestTakesMemory) {
  const plan::Prediction prediction = predict(planned_budget(), on_devices(1));
  // Four micro-batches of one sample with ten items.
  config::Config equal = planned_pairs(1, 4);
  equal.data.get<DataConfig>().average_items = 10;
  equal.data.get<DataConfig>().largest_items = 10;
  const plan::Prediction of_equal = predict(equal, on_devices(1));
  EXPECT_DOUBLE_EQ(prediction.step_seconds, of_equal.step_seconds);
  EXPECT_DOUBLE_EQ(prediction.model_flops, of_equal.model_flops);
  EXPECT_EQ(prediction.items, 40);
  constexpr double inputs = 4 * (6 + 2 * 4);
  EXPECT_DOUBLE_EQ(of_equal.stages[0].memory.total(), 16.0 * elements + 10 * inputs);
  EXPECT_DOUBLE_EQ(prediction.stages[0].memory.total(), 16.0 * elements + 12 * inputs);
  EXPECT_DOUBLE_EQ(plan::least_memory(planned_budget(), 1, 1, 1).activations, 12 * inputs);
  // A micro-batch without a budget has four of the largest samples.
  config::Config by_samples = planned_budget();
  by_samples.train.micro_batch_sizes.clear();
  by_samples.train.micro_batch = 4;
  EXPECT_DOUBLE_EQ(predict(by_samples, on_devices(1)).stages[0].memory.total(), 16.0 * elements + 16 * inputs);
  EXPECT_DOUBLE_EQ(predict(by_samples, on_devices(1)).step_seconds, of_equal.step_seconds);
}

TEST(PlannedPairs, APlanSaysTheSizesThatItCounted) {
  const plan::Plan plan = plan::make_plan(planned_budget(), on_devices(1));
  const std::string text = text_of(plan);
  EXPECT_NE(text.find("micro-batch up to 12 items,"), std::string::npos) << text;
  EXPECT_NE(text.find("\nitems 10 on average, at most 12 a micro-batch\n"), std::string::npos) << text;
  EXPECT_EQ(json_of(plan)["micro_batch_sizes"], (Json{{"items", {{"average", 10}, {"largest", 12}}}}));
}

TEST(PlannedPairs, ASearchKeepsTheBudget) {
  config::Config config = planned_budget();
  config.model.get<ModelConfig>().layers = 4;
  const plan::BestLayouts best = best_layouts(config, on_devices(4), {.count = 1000});
  EXPECT_GT(best.layouts.size(), 3);
  for (const plan::Change& one : best.layouts) {
    EXPECT_EQ(one.config.train.micro_batch_sizes, config.train.micro_batch_sizes);
    EXPECT_EQ(one.config.train.micro_batch, 0);
  }
}

// bf16 weights have fp32 masters; the narrow branch and the buffers are fp32 anyway.
TEST(PlannedPairs, CountsFp32ParametersBesideBf16OnesAndBuffers) {
  config::Config config = planned_pairs(1, 3);
  config.train.precision = config::Precision::bf16;
  config.model.get<ModelConfig>().fp32_narrow = config.model.get<ModelConfig>().buffers = true;
  constexpr int64_t fp32 = 15, bf16 = elements - fp32;
  constexpr double buffers = 4 * (6 + 4);
  using enum plan::MemoryKind;
  const plan::StageMemory alone = predict(config, on_devices(1)).stages[0].memory;
  EXPECT_EQ(alone.of(weights), 2 * bf16 + 4 * fp32 + buffers);
  EXPECT_EQ(alone.of(gradients), 4 * elements);
  EXPECT_EQ(alone.of(optimizer), 12 * bf16 + 8 * fp32);
  // The largest neighbours are the layer and a segment beside it, whose three flat buffers are each padded to a piece
  // for both ranks.
  config.train.global_batch = 4;
  config.layout.sharding = config::Sharding::zero3;
  const plan::StageMemory sharded = predict(config, on_devices(2)).stages[0].memory;
  EXPECT_EQ(sharded.of(weights), (2 * bf16 + 4 * fp32) / 2.0 + buffers);
  EXPECT_EQ(sharded.of(gathers), 2048 * (2 + 4 + 2) + 4 * 2048 * 3);
}

// All that a stage does and waits for takes the whole step, except that stages with fewer parameters update them
// sooner.
TEST(PlannedPairs, TheSecondsOfEachStageAddUpToTheStep) {
  using enum config::Sharding;
  for (const int64_t stages : {1, 2, 3}) {
    for (const config::Sharding sharding : {ddp, zero1, zero2, zero3}) {
      config::Config config = planned_pairs(4, 12);
      config.layout.pipeline = stages;
      config.layout.sharding = sharding;
      const plan::Target target = on_devices(12);
      const plan::PlannedRun run = planned_run(config, target);
      const plan::SimulatedStep step(run, target);
      const plan::Prediction prediction = predict(step);
      const observe::StepRecord record = step_record(step, prediction, {0});
      ASSERT_EQ(record.stages.size(), static_cast<size_t>(stages));
      constexpr double with_norm = 32.0 / 28;
      const double update =
          with_norm * std::ranges::max(prediction.stages, {}, &plan::StagePrediction::update_seconds).update_seconds;
      int64_t held = 0;
      for (const observe::StageRecord& stage : record.stages) {
        const plan::StagePrediction& predicted = prediction.stages[static_cast<size_t>(stage.stage)];
        EXPECT_NEAR(observe::sum(stage.seconds), record.step_seconds - update + with_norm * predicted.update_seconds,
                    1e-9 * record.step_seconds);
        held += predicted.parameters;
      }
      EXPECT_EQ(held, prediction.parameters);
      EXPECT_FALSE(record.stages[0].events.empty());
      EXPECT_FALSE(record.groups.empty());
    }
  }
}

// The family's rule leaves out every layout with tensor parallelism.
TEST(PlannedPairs, TheBestLayoutIsThatOfSimulatingAll) {
  const config::Config config = planned_pairs(4, 8);
  const plan::BestLayouts best = best_layouts(config, on_devices(4), {});
  const plan::BestLayouts all = best_layouts(config, on_devices(4), {.count = 1000, .simulates_all = true});
  ASSERT_EQ(best.layouts.size(), 1);
  EXPECT_EQ(best.layouts[0].prediction.step_seconds, all.layouts[0].prediction.step_seconds);
  EXPECT_GT(all.layouts.size(), 10);
  for (const plan::Change& one : all.layouts) EXPECT_EQ(one.config.layout.tensor, 1);
}

}  // namespace
}  // namespace terrace::pair
