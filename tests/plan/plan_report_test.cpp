// Compares the two forms of a plan, and estimates with values worked out by hand.
#include "terrace/plan/report/plan_report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "terrace/base/text/units.h"
#include "terrace/plan/layouts/scaling.h"
#include "terrace/plan/memory/memory_table.h"
#include "terrace/plan/report/step_record.h"
#include "tests/plan/small_gpt.h"
#include "tests/plan/small_machine.h"

namespace terrace::plan {
namespace {

config::Config four_layers_on_two_stages() {
  config::Config config = small_gpt(4);
  config.layout.pipeline = 2;
  config.layout.stage_layers = {2, 2};
  return config;
}

TEST(Plan, FiguresInTextAndJson) {
  const Plan plan = make_plan(four_layers_on_two_stages(), {.machine = small_machine(), .software = {}, .devices = 4});
  const Json json = json_of(plan);
  EXPECT_EQ(json["feasible"], true);
  EXPECT_EQ(json["step_seconds"], plan.prediction.step_seconds);
  EXPECT_EQ(json["tokens_per_second"], 8 * 16 / plan.prediction.step_seconds);
  ASSERT_EQ(json["stages"].size(), 2);
  double sum = 0;
  for (const auto& [kind, bytes] : json["stages"][0]["memory_bytes"].items()) {
    if (kind != "total") sum += bytes.get<double>();
  }
  EXPECT_DOUBLE_EQ(sum, json["stages"][0]["memory_bytes"]["total"].get<double>());
  const std::string text = text_of(plan);
  EXPECT_NE(text.find(format_seconds(plan.prediction.step_seconds)), std::string::npos);
  EXPECT_NE(text.find("what would help most"), std::string::npos);
}

TEST(Plan, RowsForTheBubbleAndQueuedTransfers) {
  Plan plan = make_plan(four_layers_on_two_stages(), {.machine = small_machine(), .software = {}, .devices = 4});
  plan.prediction.step_seconds = 10;
  plan.prediction.bubble_share = 0.25;
  StagePrediction& slowest = plan.prediction.stages[static_cast<size_t>(plan.prediction.slowest)];
  slowest.bubble_seconds = 2;
  slowest.queued_seconds = 0.5;
  const std::string text = text_of(plan);
  EXPECT_NE(text.find("bubble 25.0%\n"), std::string::npos) << text;
  EXPECT_NE(text.find("    waits in the bubble               2.00 s   20.0%\n"), std::string::npos) << text;
  EXPECT_NE(text.find("    waits for queued transfers        500 ms    5.0%\n"), std::string::npos) << text;
  const Json stage = json_of(plan)["stages"][static_cast<size_t>(plan.prediction.slowest)];
  EXPECT_EQ(stage["waiting_seconds"], 2.5);
  EXPECT_EQ(stage["bubble_seconds"], 2);
  EXPECT_EQ(stage["queued_seconds"], 0.5);
  EXPECT_EQ(json_of(plan)["queued_share"], plan.prediction.queued_share);
}

// Widest where eight stages and all kinds of memory are shown, and in figures of four digits.
TEST(Plan, TablesOfAtMost80Columns) {
  const auto widest = [](const std::string& text) {
    size_t most = 0;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) most = std::max(most, line.size());
    return most;
  };
  for (const size_t stages : {1, 8, 10}) {
    Prediction prediction;
    config::Config config = small_gpt(4);
    config.layout.error_feedback = true;
    for (size_t i = 0; i < stages; ++i) {
      StagePrediction stage;
      for (size_t kind = 0; kind < num_memory_kinds; ++kind) stage.memory.bytes[kind] = 102.39 * 0x1p30;
      prediction.stages.push_back(stage);
    }
    const std::string table = memory_table(prediction, config);
    EXPECT_LE(widest(table), 80) << table;
    EXPECT_EQ(std::ranges::count(table, '\n'), num_memory_kinds + 2 + (stages > 1 ? 1 : 0));
  }
  const Target target{.machine = small_machine(), .software = {}, .devices = 1};
  Scaling table = scaling(small_gpt(2), target, {1, 2, 4, 8});
  table.weak[0].devices = 16'777'216;
  table.weak[0].global_batch = 100'000'000;
  for (std::vector<ScalingPoint>* points : {&table.weak, &table.strong}) {
    for (ScalingPoint& point : *points) {
      point.interval = {
          .errors = {.kind = "one stage in one node"}, .shortest_seconds = 45'678, .longest_seconds = 78'901};
      point.efficiency_interval = {1.11, 1.22, true};
    }
  }
  EXPECT_LE(widest(text_of(table, "samples")), 80) << text_of(table, "samples");
}

TEST(Plan, ShowsTheFirstTheFullestAndTheLastOfManyStages) {
  Prediction prediction;
  for (size_t i = 0; i < 12; ++i) {
    StagePrediction stage;
    stage.memory.of(MemoryKind::weights) = i == 7 ? 3 * 0x1p30 : 0x1p30;
    stage.memory.of(MemoryKind::gradients) = 0x1p20;
    prediction.stages.push_back(stage);
  }
  EXPECT_EQ(memory_table(prediction, small_gpt(4)),
            "memory of one device in GiB\n"
            "    stage              0      1      7     11\n"
            "    weights          1.0    1.0    3.0    1.0\n"
            "    gradients       <0.1   <0.1   <0.1   <0.1\n"
            "    optimizer          0      0      0      0\n"
            "    activations        0      0      0      0\n"
            "    temporary          0      0      0      0\n"
            "    gathers            0      0      0      0\n"
            "    communication      0      0      0      0\n"
            "    slack              0      0      0      0\n"
            "    total            1.0    1.0    3.0    1.0\n");
}

TEST(Plan, SaysTheMicroBatchThatAZeroStandsFor) {
  config::Config config = small_gpt(2);
  config.train.micro_batch = 0;
  const Target target{.machine = small_machine(), .software = {}, .devices = 2};
  EXPECT_NE(text_of(make_plan(config, target)).find(", micro-batch 4, "), std::string::npos);
}

TEST(Plan, NamesFittingLayoutsForARunThatDoesNotFit) {
  Target target{.machine = small_machine(), .software = {}, .devices = 4};
  const Plan fitting = make_plan(four_layers_on_two_stages(), target);
  target.machine.device.memory_bytes = fitting.prediction.stages[0].memory.total() - 1;
  const Plan plan = make_plan(four_layers_on_two_stages(), target);
  EXPECT_EQ(json_of(plan)["feasible"], false);
  EXPECT_EQ(json_of(plan)["reason"], plan.prediction.reason);
  EXPECT_GT(json_of(plan)["step_seconds"], 0);
  ASSERT_FALSE(plan.changes.empty());
  for (const Change& change : plan.changes) EXPECT_TRUE(change.prediction.feasible());
}

TEST(Plan, SaysWhatFitsWhereNothingNearDoes) {
  Target target{.machine = small_machine(), .software = {}, .devices = 2};
  target.machine.device.memory_bytes = 1000;
  const Plan plan = make_plan(small_gpt(4), target);
  EXPECT_FALSE(plan.prediction.feasible());
  EXPECT_TRUE(plan.changes.empty());
  EXPECT_NE(text_of(plan).find("no layout fits: the one that needs least memory needs "), std::string::npos);
  EXPECT_EQ(json_of(plan)["none_fits"].get<std::string>(), plan.none_fits);
}

TEST(TrainingEstimate, TimeAndEnergyOfItsItems) {
  Target target{.machine = small_machine(), .software = {}, .devices = 4};
  target.machine.device.power_watts = 50;
  Prediction prediction;
  prediction.parameters = 1000;
  prediction.items = 10;
  prediction.step_seconds = 2;
  const TrainingEstimate estimate = training_estimate(prediction, target, 20);
  EXPECT_DOUBLE_EQ(estimate.items, 20'000);
  EXPECT_DOUBLE_EQ(estimate.seconds, 4000);
  EXPECT_DOUBLE_EQ(estimate.device_hours, 4 * 4000 / 3600.0);
  EXPECT_DOUBLE_EQ(estimate.energy_joules, 4 * 4000 * 50.0);
}

// The small GPT has a vocabulary of 61 words.
TEST(TrainingEstimate, FlopsAndBytesOfItsTokens) {
  const Target target{.machine = small_machine(), .software = {}, .devices = 4};
  Prediction prediction;
  prediction.parameters = 1000;
  prediction.items = 10;
  prediction.model_flops = 70;
  prediction.step_seconds = 2;
  config::Config config = small_gpt(2);
  const std::vector<TrainingEstimate> trainings = usual_trainings(prediction, target, config);
  ASSERT_EQ(trainings.size(), 2U);
  EXPECT_DOUBLE_EQ(trainings[0].flops, 20'000 * 7);
  EXPECT_DOUBLE_EQ(trainings[1].items, 200'000);
  EXPECT_EQ(stored_token_bytes(config), 2);
  models::gpt::model_of(config).vocabulary = 65'537;
  EXPECT_EQ(stored_token_bytes(config), 4);
}

TEST(CheckpointEstimate, YoungsInterval) {
  Target target{.machine = small_machine(), .software = {}, .devices = 8};  // two nodes
  target.machine.storage = {.node_bandwidth = 3, .total_bandwidth = 100};
  target.machine.node_failure_hours = 1;
  Prediction prediction;
  prediction.parameters = 50;
  const CheckpointEstimate estimate = checkpoint_estimate(prediction, target);
  EXPECT_DOUBLE_EQ(estimate.bytes, 600);
  // 600 bytes at 3 of each node, and 24 files of half a millisecond.
  EXPECT_DOUBLE_EQ(estimate.seconds, 100.012);
  EXPECT_DOUBLE_EQ(estimate.copy_seconds, 600 / 8.0 / 50) << "75 bytes of each rank, read and written at 100 a second";
  // One of the nodes fails in half an hour.
  EXPECT_DOUBLE_EQ(estimate.interval_seconds, std::sqrt(2 * 100.012 * 1800));
  target.machine.storage.total_bandwidth = 1;
  EXPECT_DOUBLE_EQ(checkpoint_estimate(prediction, target).seconds, 600.012);
  target.machine.storage.node_bandwidth = target.machine.storage.total_bandwidth = 1e9;
  EXPECT_DOUBLE_EQ(checkpoint_estimate(prediction, target).seconds, 1.012) << "files are made all the same";
  target.machine.storage = {};
  EXPECT_EQ(checkpoint_estimate(prediction, target).interval_seconds, 0);
}

// Two micro-batches: what one of them computes and moves, and 2,000 FLOP/s over 100 bytes/s.
TEST(ArithmeticIntensity, FlopsAndBytesOfOneMicroBatchOnTheSlowestStage) {
  const Target target{.machine = small_machine(), .software = {}, .devices = 1};
  const config::Config config = small_gpt(2);
  Prediction prediction;
  prediction.micro_batches = 2;
  prediction.stages.resize(2);
  prediction.slowest = 1;
  PassTime& step = prediction.stages[1].computation;
  step.product_flops = 5000;
  step.attention_flops = 1000;
  step.memory_bytes = 400;
  const ArithmeticIntensity intensity = arithmetic_intensity(prediction, target, config);
  EXPECT_EQ(intensity.flops, 3000);
  EXPECT_EQ(intensity.bytes, 200);
  EXPECT_EQ(intensity.flops_per_byte, 15);
  EXPECT_EQ(intensity.ridge, 20);
  EXPECT_EQ(text_of(intensity), "15 FLOP a byte of memory, 3e+03 and 200 of one micro-batch; the ridge is at 20");
}

// The intensity is the same with more micro-batches, and recompute repeats work that moves bytes too.
TEST(ArithmeticIntensity, OfAPlanInTextAndJson) {
  config::Config config = small_gpt(2);
  const Target target{.machine = small_machine(), .software = {}, .devices = 1};
  const Plan eight = make_plan(config, target);
  const Json json = json_of(eight)["arithmetic_intensity"];
  const PassTime& step = eight.prediction.stages[0].computation;
  EXPECT_DOUBLE_EQ(json["bytes"].get<double>(), (step.product_bytes + step.attention_bytes + step.element_bytes) / 8);
  EXPECT_EQ(json["ridge_flops_per_byte"], 20);
  EXPECT_NE(text_of(eight).find("arithmetic intensity " +
                                text_of(arithmetic_intensity(eight.prediction, target, config)) + "\n"),
            std::string::npos);
  config.train.global_batch = 16;
  EXPECT_DOUBLE_EQ(json_of(make_plan(config, target))["arithmetic_intensity"]["flops"].get<double>(),
                   json["flops"].get<double>());
}

TEST(PredictedStep, EveryInstructionThatTakesTime) {
  const Target target{.machine = small_machine(), .software = {}, .devices = 2};
  const PlannedRun run = planned_run(four_layers_on_two_stages(), target);
  const SimulatedStep step(run, target);
  const Prediction prediction = predict(step);
  const observe::Trace trace = observe::trace_of(step_record(step, prediction, {0, 1}));
  double computing = 0;
  for (const observe::Lane& lane : trace) {
    for (size_t i = 0; i < lane.spans.size(); ++i) {
      const observe::Span& span = lane.spans[i];
      EXPECT_LT(span.begin_ns, span.end_ns);
      EXPECT_TRUE(i == 0 || lane.spans[i - 1].end_ns <= span.begin_ns + 1);
      if (lane.rank == 0 && lane.name == "stage 0: computation")
        computing += 1e-9 * static_cast<double>(span.end_ns - span.begin_ns);
    }
  }
  const StagePrediction& stage = prediction.stages[0];
  // The norm reads 4 of the 28 bytes of an element that the update reads and writes.
  EXPECT_NEAR(computing, stage.computation.total() + 32.0 / 28 * stage.update_seconds, 1e-3 * computing);
}

}  // namespace
}  // namespace terrace::plan
