// Plans and simulates a family that the program does not know and that has nothing but a unit table: predicted memory
// and times equal those worked out by hand.
//
// With a width of 4, micro-batches of one sample and fp32, a product of a layer or of an outer unit reads and writes
// (4 + 16 + 4) * 4 = 96 bytes forward and as many for the gradient of its input, and 96 + 64 = 160 bytes for that of
// its weight, which is read before it is written. Memory of 100 bytes/s limits all of them: a forward takes 0.96 s, the
// gradients 0.96 s and 1.6 s. The first unit has no gradient of its input.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "terrace/base/error.h"
#include "terrace/config/load_for_plan.h"
#include "terrace/models/planned_families.h"
#include "terrace/plan/layouts/best.h"
#include "terrace/plan/report/step_record.h"
#include "tests/families/linear/linear_family.h"
#include "tests/plan/small_machine.h"
#include "tests/scratch_folder.h"

namespace terrace::linear {
namespace {

constexpr double forward = 0.96, input_gradient = 0.96, weight_gradient = 1.6;
constexpr double layer_backward = 2 * (input_gradient + weight_gradient);
constexpr int64_t product_elements = 16;
constexpr double bytes_of_sample = 16;  // the inputs of a product, or its outputs

config::Config two_layers() {
  config::Config config = config::config_of(planned_family());
  model_of(config) = {.layers = 2, .width = 4};
  config.train.global_batch = 2;
  config.train.micro_batch = 1;
  return config;
}

config::Config on_two_stages() {
  config::Config config = two_layers();
  config.layout.pipeline = 2;
  config.layout.stage_layers = {1, 1};
  return config;
}

plan::Target on_devices(int64_t devices) {
  return {.machine = plan::small_machine(), .software = {}, .devices = devices};
}

// fp32: 28 bytes of an element are read or written, and the gradient's 4 before that for the norm, at 100 bytes/s.
double update_of(int64_t elements) { return 0.32 * static_cast<double>(elements); }

double memory_of(const plan::StagePrediction& stage, plan::MemoryKind kind) { return stage.memory.of(kind); }

TEST(PlannedLinear, OneDeviceComputesTheProductsOfBothSamplesAndUpdates) {
  const plan::Prediction prediction = predict(two_layers(), on_devices(1));
  // Six products, of which the first has no gradient of its input.
  const double sample = 6 * forward + 5 * input_gradient + 6 * weight_gradient;
  EXPECT_EQ(prediction.parameters, 6 * product_elements);
  EXPECT_NEAR(prediction.step_seconds, 2 * sample + update_of(6 * product_elements), 1e-9);
  // Each product has 2 * 16 FLOPs, and three times that with its gradients.
  EXPECT_DOUBLE_EQ(prediction.model_flops, 2 * 6 * 3 * 32);
  EXPECT_EQ(prediction.items, 2);
}

TEST(PlannedLinear, OneDeviceHoldsStatesInputsAndOutputs) {
  config::Config config = two_layers();
  plan::Prediction prediction = predict(config, on_devices(1));
  const double states = 16.0 * 6 * product_elements;
  EXPECT_DOUBLE_EQ(prediction.stages[0].memory.states(), states);
  // The inputs of the first unit and of the two products of each layer; the outputs of the last unit and their
  // gradients.
  EXPECT_DOUBLE_EQ(memory_of(prediction.stages[0], plan::MemoryKind::activations), 5 * bytes_of_sample);
  EXPECT_DOUBLE_EQ(memory_of(prediction.stages[0], plan::MemoryKind::temporary), 2 * bytes_of_sample);
  EXPECT_DOUBLE_EQ(prediction.stages[0].memory.total(), states + 7 * bytes_of_sample);

  config.train.recompute = config::Recompute::full;
  const double without = prediction.step_seconds;
  prediction = predict(config, on_devices(1));
  EXPECT_DOUBLE_EQ(memory_of(prediction.stages[0], plan::MemoryKind::activations), 3 * bytes_of_sample);
  EXPECT_NEAR(prediction.step_seconds - without, 2 * 2 * 2 * forward, 1e-9);
}

// The first stage has the first unit and a layer, the second a layer and the last unit.
TEST(PlannedLinear, TwoStagesWaitForEachOther) {
  const plan::Target target = on_devices(2);
  const plan::PlannedRun run = planned_run(on_two_stages(), target);
  const plan::SimulatedStep step(run, target);
  const plan::Prediction prediction = predict(step);
  const double send = bytes_of_sample / 10, stage_forward = 3 * forward;
  const double first_backward = layer_backward + weight_gradient;
  const double second_backward = layer_backward + input_gradient + weight_gradient;
  // The first sample's hidden state arrives, and the second stage computes both samples without a pause. The gradient
  // of the second one returns when that of the first one has long been used.
  const double second_ends = stage_forward + send + 2 * (stage_forward + second_backward);
  const double seconds = second_ends + send + first_backward + update_of(3 * product_elements);
  EXPECT_NEAR(prediction.step_seconds, seconds, 1e-9);

  const observe::StepRecord record = step_record(step, prediction, {0, 1});
  ASSERT_EQ(record.stages.size(), 2);
  EXPECT_NEAR(observe::figure(record.stages[0].seconds, "forward"), 2 * stage_forward, 1e-9);
  EXPECT_NEAR(observe::figure(record.stages[0].seconds, "backward"), 2 * first_backward, 1e-9);
  EXPECT_NEAR(observe::figure(record.stages[0].seconds, "update"), update_of(3 * product_elements), 1e-9);
  EXPECT_NEAR(observe::sum(record.stages[0].seconds), seconds, 1e-9);
  const auto sends = [](const observe::StageRecord& stage) {
    return std::ranges::count(stage.events, "transfer", &observe::StepEvent::kind);
  };
  EXPECT_EQ(sends(record.stages[0]), 2);
  EXPECT_EQ(sends(record.stages[1]), 2);
}

TEST(PlannedLinear, TheFirstOfTwoStagesHoldsTheInputsOfBothSamples) {
  const plan::Prediction prediction = predict(on_two_stages(), on_devices(2));
  const double states = 16.0 * 3 * product_elements, communication = 4 * bytes_of_sample;
  EXPECT_EQ(prediction.stages[0].memory.live_micro_batches, 2);
  EXPECT_DOUBLE_EQ(prediction.stages[0].memory.total(), states + 2 * 3 * bytes_of_sample + communication);
  EXPECT_EQ(prediction.stages[1].memory.live_micro_batches, 1);
  EXPECT_DOUBLE_EQ(prediction.stages[1].memory.total(),
                   states + 2 * bytes_of_sample + 2 * bytes_of_sample + communication);
}

// Each of two tensor ranks has half of a layer's products: (4 + 8 + 2) * 4 = 56 bytes, and 88 for the gradient of the
// weight. Both passes sum 16 bytes over the pair's link of 10 bytes/s, of which a ring sends as many.
TEST(PlannedLinear, TensorRanksHalveTheLayersAndSum) {
  config::Config config = two_layers();
  config.layout.tensor = 2;
  const plan::Prediction prediction = predict(config, on_devices(2));
  const double layer = 2 * (0.56 + 0.56 + 0.88) + 2 * 1.6;
  const double outer = 2 * forward + input_gradient + 2 * weight_gradient;
  EXPECT_NEAR(prediction.step_seconds, 2 * (outer + 2 * layer) + update_of(4 * product_elements), 1e-9);
  EXPECT_EQ(prediction.parameters, 6 * product_elements);
  EXPECT_EQ(prediction.stages[0].parameters, 4 * product_elements);
  ASSERT_EQ(prediction.stages[0].exposed.size(), 1);
  EXPECT_EQ(prediction.stages[0].exposed[0].group, "tensor");
  EXPECT_NEAR(prediction.stages[0].exposed[0].seconds, 2 * 2 * 2 * 1.6, 1e-9);
}

TEST(PlannedLinear, DataParallelRanksWaitForTheSumOfGradients) {
  plan::Target target = on_devices(2);
  target.software.reduces_while_computing = false;
  const plan::Prediction prediction = predict(two_layers(), target);
  const double sample = 6 * forward + 5 * input_gradient + 6 * weight_gradient;
  // Four segments, each padded to 1,024 elements for each rank.
  const double reduction = 4 * 2 * 1024 * 4 / 10.0;
  EXPECT_NEAR(prediction.step_seconds, sample + reduction + update_of(6 * product_elements), 1e-9);
}

// Each of two data-parallel ranks holds its share of the states, and whole weights or gradients of two segments at a
// time: of the one that is computed and the one that is gathered ahead or still reduced.
TEST(PlannedLinear, EveryShardingDividesItsStates) {
  struct Case {
    config::Sharding sharding;
    double weights, gradients, optimizer;  // bytes of an element
    double gathers;                        // of segments, each padded to 2 * 1,024 elements of 4 bytes
  };
  using enum config::Sharding;
  for (const Case& one :
       {Case{ddp, 4, 4, 8, 0}, Case{zero1, 4, 4, 4, 0}, Case{zero2, 4, 2, 4, 2}, Case{zero3, 2, 2, 4, 4}}) {
    config::Config config = on_two_stages();
    config.layout.sharding = one.sharding;
    const plan::Prediction prediction = predict(config, on_devices(4));
    for (const plan::StagePrediction& stage : prediction.stages) {
      EXPECT_DOUBLE_EQ(memory_of(stage, plan::MemoryKind::weights), one.weights * 3 * product_elements);
      EXPECT_DOUBLE_EQ(memory_of(stage, plan::MemoryKind::gradients), one.gradients * 3 * product_elements);
      EXPECT_DOUBLE_EQ(memory_of(stage, plan::MemoryKind::optimizer), one.optimizer * 3 * product_elements);
      EXPECT_DOUBLE_EQ(memory_of(stage, plan::MemoryKind::gathers), one.gathers * 2 * 1024 * 4);
    }
    EXPECT_TRUE(prediction.feasible());
    EXPECT_GT(prediction.step_seconds, 0);
  }
}

TEST(PlannedLinear, TheBestLayoutIsThatOfSimulatingAll) {
  config::Config config = two_layers();
  model_of(config).layers = 4;
  config.train.global_batch = 8;
  const plan::BestLayouts best = best_layouts(config, on_devices(4), {});
  const plan::BestLayouts all = best_layouts(config, on_devices(4), {.simulates_all = true});
  ASSERT_EQ(best.layouts.size(), 1);
  EXPECT_EQ(best.layouts[0].prediction.step_seconds, all.layouts[0].prediction.step_seconds);
  EXPECT_GT(best.legal, 50);
  for (const int64_t stages : {1, 2, 4}) {
    config.layout.pipeline = stages;
    EXPECT_LE(best.layouts[0].prediction.step_seconds, predict(config, on_devices(4)).step_seconds);
  }
}

TEST(PlannedLinear, FileOfAFamilyThatIsAddedToTheProgramsOwn) {
  const ScratchFolder folder;
  const auto path = folder.path() / "linear.toml";
  std::ofstream(path)
      << "[model]\nfamily = \"linear\"\nlayers = 2\n[train]\nglobal_batch = 2\nmicro_batch = 1\nsteps = 1\n";
  config::Families families = models::planned_families();
  families.push_back(&planned_family());
  const config::Config config = config::load_for_plan(path, families);
  EXPECT_EQ(predict(config, on_devices(1)).step_seconds, predict(two_layers(), on_devices(1)).step_seconds);
  try {
    config::load_for_plan(path, families, {"layout.tensor=3"});
    FAIL() << "nothing was refused";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("layout.tensor = 3 does not divide model.width = 4"), std::string::npos);
  }
}

}  // namespace
}  // namespace terrace::linear
