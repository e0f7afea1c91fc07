// The record that training writes of a step: its seconds add up, its memory is counted, and it is held against the
// prediction of the machine that the configuration names.
#include <gtest/gtest.h>

#include <algorithm>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/machine/machine.h"
#include "terrace/observe/step_comparison.h"
#include "terrace/observe/step_record.h"
#include "terrace/run/run_training.h"
#include "tests/train/tiny_run.h"

namespace terrace::run {
namespace {

namespace fs = std::filesystem;

class MeasuredRun : public train::TinyRun {
 protected:
  fs::path trained(const std::string& name, std::vector<std::string> overrides, int64_t ranks) {
    const fs::path run_folder = folder_ / name;
    overrides.push_back("checkpoint.folder=" + run_folder.string());
    overrides.push_back("train.threads=1");
    run_training(tiny_config(overrides), {.ranks = ranks});
    return run_folder;
  }
};

TEST_F(MeasuredRun, SecondsOfTheRecordAddUpToTheStep) {
  const fs::path run_folder = trained("plain", {}, 1);
  const observe::StepRecord record = observe::read_step_record(run_folder / observe::measured_step_file);
  EXPECT_EQ(record.source, "measured");
  EXPECT_GE(record.step, profile_warm_up + 1);
  ASSERT_EQ(record.stages.size(), 1u);
  const observe::StageRecord& stage = record.stages.front();
  EXPECT_NEAR(observe::sum(stage.seconds), record.step_seconds, 1e-6);
  for (const char* name : {"forward", "loss", "backward", "update"}) {
    EXPECT_GT(observe::figure(stage.seconds, name), 0) << name;
  }
  EXPECT_FALSE(fs::exists(run_folder / observe::predicted_step_file));
}

// The states are known exactly: elements of the flat buffers in fp32, and two moments.
TEST_F(MeasuredRun, CountsTheMemoryOfStatesAndOfTheStep) {
  const fs::path run_folder = trained("memory", {}, 1);
  const observe::StageRecord stage = observe::read_step_record(run_folder / observe::measured_step_file).stages.front();
  const double weights = observe::figure(stage.memory_bytes, "weights");
  EXPECT_GT(weights, 0);
  EXPECT_EQ(observe::figure(stage.memory_bytes, "gradients"), weights);
  EXPECT_EQ(observe::figure(stage.memory_bytes, "optimizer"), 2 * weights);
  EXPECT_GT(observe::figure(stage.memory_bytes, observe::in_step_memory), 0);
  const double most = std::ranges::max_element(stage.memory, {}, &observe::MemorySample::bytes)->bytes;
  EXPECT_NEAR(observe::sum(stage.memory_bytes), most, 0.01 * most);
}

TEST_F(MeasuredRun, StagesOfAPipelineAndTrafficOfItsGroups) {
  const fs::path run_folder = trained(
      "pipeline", {"layout.pipeline=2", "layout.sharding=zero2", "train.micro_batch=1", "observe.machine=laptop"}, 4);
  const observe::StepRecord measured = observe::read_step_record(run_folder / observe::measured_step_file);
  const observe::StepRecord predicted = observe::read_step_record(run_folder / observe::predicted_step_file);
  ASSERT_EQ(measured.stages.size(), 2u);
  ASSERT_EQ(predicted.stages.size(), 2u);
  EXPECT_EQ(measured.machine, "laptop");
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(measured.stages[i].stage, static_cast<int64_t>(i));
    EXPECT_EQ(measured.stages[i].rank, predicted.stages[i].rank);
    // Flat buffers are padded to 1,024 elements a rank; a stage has two segments or three, and moments are two numbers.
    for (const char* name : {"weights", "gradients", "optimizer"}) {
      const double counted = observe::figure(predicted.stages[i].memory_bytes, name);
      const double own = observe::figure(measured.stages[i].memory_bytes, name);
      EXPECT_GE(own, counted) << name;
      EXPECT_LE(own, counted + 3 * 1024 * 8) << name;
    }
  }
  const auto bytes = [](const observe::StepRecord& record, const char* name) {
    const auto group = std::ranges::find(record.groups, name, &observe::CommunicationRecord::name);
    return group == record.groups.end() ? 0 : group->bytes;
  };
  // Every movement of the prediction was counted on the wire.
  EXPECT_GT(bytes(measured, "shard_gradients"), 0);
  EXPECT_EQ(bytes(measured, "shard_gradients"), bytes(predicted, "shard_gradients"));
  EXPECT_EQ(bytes(measured, "update"), bytes(predicted, "update"));
  EXPECT_EQ(bytes(measured, "stages"), bytes(predicted, "stages"));
  for (const observe::CommunicationRecord& group : measured.groups) EXPECT_LT(group.stage, 2) << group.name;
}

// Payloads with their scales, and a parameter's padding to a block, are counted as they are sent.
TEST_F(MeasuredRun, SendsTheBytesThatWerePredictedToTheByte) {
  const std::vector<std::string> layouts[] = {
      {"layout.sharding=zero3"},
      {"layout.sharding=zero3", "layout.gather_type=int8", "layout.reduce_type=int4"},
      {"layout.sharding=zero1", "layout.update_type=int4", "layout.reduce_type=fp8"},
      {"layout.sharding=ddp", "layout.reduce_type=int8"},
      {"layout.sharding=three_level", "layout.ranks_per_node=4", "layout.gather_type=fp8", "layout.reduce_type=int8",
       "layout.update_type=int8"},
      {"layout.shard_gradients=2", "layout.shard_optimizer=2", "layout.reduce_type=int4", "layout.update_type=bf16"},
      {"layout.sharding=three_level", "layout.ranks_per_node=2", "layout.gather_type=fp8", "layout.reduce_type=int8",
       "layout.update_type=int8", "layout.node_type=bf16"},
      {"layout.sharding=zero3", "layout.ranks_per_node=2", "layout.gather_type=int8", "layout.reduce_type=int4",
       "layout.node_type=bf16", "layout.route=rails"},
  };
  int number = 0;
  for (std::vector<std::string> keys : layouts) {
    SCOPED_TRACE(number);
    keys.insert(keys.end(), {"train.micro_batch=1", "observe.machine=laptop"});
    const fs::path run_folder = trained("bytes" + std::to_string(number++), keys, 4);
    const observe::StepRecord measured = observe::read_step_record(run_folder / observe::measured_step_file);
    const observe::StepRecord predicted = observe::read_step_record(run_folder / observe::predicted_step_file);
    int64_t compared = 0;
    for (const observe::CommunicationRecord& group : predicted.groups) {
      const auto own = std::ranges::find(measured.groups, group.name, &observe::CommunicationRecord::name);
      if (group.bytes == 0) continue;
      ASSERT_NE(own, measured.groups.end()) << group.name;
      EXPECT_EQ(own->bytes, group.bytes) << group.name;
      ++compared;
    }
    EXPECT_GT(compared, 0);
  }
}

// The bytes are as predicted with tensor and pipeline parallelism, and by rails, too.
TEST_F(MeasuredRun, KeepsTheBytesOfErrorsThatWerePredictedToTheByte) {
  const std::vector<std::string> layouts[] = {
      {"layout.sharding=zero3"},
      {"layout.sharding=ddp"},
      {"layout.shard_gradients=2", "layout.shard_optimizer=2"},
      {"layout.shard_gradients=2", "layout.shard_optimizer=4"},
      {"layout.sharding=zero2", "layout.deterministic=true"},
      {"layout.sharding=zero2", "layout.ranks_per_node=2", "layout.route=rails"},
      {"layout.shard_gradients=2", "layout.shard_optimizer=4", "layout.ranks_per_node=2", "layout.node_type=bf16"},
      {"layout.sharding=zero1", "layout.tensor=2"},
      {"layout.sharding=zero3", "layout.pipeline=2"},
  };
  int number = 0;
  for (std::vector<std::string> keys : layouts) {
    SCOPED_TRACE(number);
    keys.insert(keys.end(), {"train.micro_batch=1", "observe.machine=laptop", "layout.reduce_type=int4",
                             "layout.error_feedback=true"});
    const fs::path run_folder = trained("errors" + std::to_string(number++), keys, 4);
    const observe::StepRecord measured = observe::read_step_record(run_folder / observe::measured_step_file);
    const observe::StepRecord predicted = observe::read_step_record(run_folder / observe::predicted_step_file);
    ASSERT_EQ(measured.stages.size(), predicted.stages.size());
    for (size_t stage = 0; stage < measured.stages.size(); ++stage) {
      EXPECT_GT(observe::figure(measured.stages[stage].memory_bytes, "feedback"), 0);
      EXPECT_EQ(observe::figure(measured.stages[stage].memory_bytes, "feedback"),
                observe::figure(predicted.stages[stage].memory_bytes, "feedback"));
    }
  }
}

TEST_F(MeasuredRun, ChangesNoBitOfTheTraining) {
  const auto weights = [&](const std::string& name, const std::vector<std::string>& overrides) {
    const fs::path run_folder = trained(name, overrides, 2);
    return observe::read_metrics(run_folder);
  };
  const auto with = weights("with", {"observe.machine=laptop"}), without = weights("without", {});
  ASSERT_EQ(with.steps.size(), without.steps.size());
  for (const auto& [step, metrics] : with.steps) EXPECT_EQ(metrics.loss, without.steps.at(step).loss) << step;
}

TEST_F(MeasuredRun, RefusesAMachineThatDoesNotExistOrIsTooSmall) {
  EXPECT_THROW(trained("unknown", {"observe.machine=nowhere"}, 1), UserError);
  machine::Machine bf16_only = machine::load("laptop");
  bf16_only.device.products[static_cast<size_t>(config::Precision::fp32)] = {};
  const std::string description = (folder_ / "bf16.toml").string();
  write_text_atomically(description, machine::dump(bf16_only));
  EXPECT_THROW(trained("other-type", {"observe.machine=" + description}, 1), UserError);
  EXPECT_THROW(trained("small", {"observe.machine=laptop", "train.micro_batch=1", "train.global_batch=8"}, 8),
               UserError);
}

}  // namespace
}  // namespace terrace::run
