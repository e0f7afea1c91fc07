// Compares the memory that copies take on a node with sums worked out by hand.
#include "terrace/plan/memory/node_memory.h"

#include <gtest/gtest.h>

#include "terrace/plan/estimate.h"
#include "terrace/plan/memory/copied_states.h"
#include "terrace/plan/prediction.h"
#include "tests/plan/small_gpt.h"
#include "tests/plan/small_machine.h"

namespace terrace::plan {
namespace {

// Nodes of four devices.
Target devices(int64_t count) { return {.machine = small_machine(), .software = {}, .devices = count}; }

config::Config copying(int64_t stages) {
  config::Config config = small_gpt(4);
  config.layout.pipeline = stages;
  config.layout.stage_layers = stages == 2 ? std::vector<int64_t>{2, 2} : std::vector<int64_t>{};
  config.checkpoint.memory_every = 5;
  return config;
}

const std::vector<RankBytes> bytes_of_stages = {{.saved = 10, .device = 1000}, {.saved = 30, .device = 2000}};

TEST(NodeMemory, HoldsTwoCopiesOfThisNodeAndOfTheOneBefore) {
  config::Config config = copying(2);
  const auto of = [&](int64_t count, const machine::Host& host = {}) {
    return node_memory(planned_run(config, devices(count)), bytes_of_stages, host);
  };
  // One node has two ranks of each stage, which save 80 bytes together.
  EXPECT_EQ(of(4).written, 80);
  EXPECT_EQ(of(4).files, 2 * 80);
  EXPECT_EQ(of(4).devices, 0);
  // Each of two nodes has one stage: 40 bytes and 120.
  EXPECT_EQ(of(8).written, 120);
  EXPECT_EQ(of(8).files, 2 * (120 + 40));
  // The last of four nodes has 120 bytes of its own, and 120 of the one before.
  EXPECT_EQ(of(16).files, 2 * (120 + 120));
  EXPECT_EQ(of(8, {.memory_bytes = 1e6, .holds_devices = true}).devices, 4 * 2000);
  config.checkpoint.every = 10;  // in the background
  EXPECT_EQ(of(8).written, 2 * 120);
  config.checkpoint.memory_every = 0;
  EXPECT_EQ(of(8).written, 120);
  EXPECT_EQ(of(8).files, 0);
  config.checkpoint.background = false;
  EXPECT_EQ(of(8).all(), 0);
}

// A last node with fewer devices takes all files of the one before.
TEST(NodeMemory, CountsNodesOfUnequalSizes) {
  config::Config config = copying(1);
  config.train.global_batch = 12;
  config.train.micro_batch = 1;
  const NodeMemory need = node_memory(planned_run(config, devices(6)), {{.saved = 10}}, {});
  EXPECT_EQ(need.files, 2 * (40 + 20));
  EXPECT_EQ(need.written, 40);
}

TEST(NodeMemory, RefusesARunWhoseCopiesDoNotFit) {
  const config::Config config = copying(1);
  Target target = devices(8);
  const Prediction unlimited = predict(config, target);
  EXPECT_EQ(unlimited.reason, "") << "the machine does not state the memory of its nodes";
  const double copies = unlimited.node.copies();
  // Each of the eight ranks has an eighth of 12 bytes a parameter, and each node holds five times what its ranks have.
  EXPECT_DOUBLE_EQ(copies, 5 * 12 * static_cast<double>(unlimited.parameters) / 2);
  target.machine.host.memory_bytes = copies;
  EXPECT_EQ(predict(config, target).reason, "");
  target.machine.host.memory_bytes = copies - 1;
  const std::string reason = predict(config, target).reason;
  EXPECT_NE(reason.find("([host] memory of small); use checkpoint.memory_every = 0, which takes 60 bytes a parameter "
                        "less, or more nodes"),
            std::string::npos)
      << reason;
  // In the memory of the node the ranks compute too.
  target.machine.host = {.memory_bytes = copies, .holds_devices = true};
  EXPECT_NE(predict(config, target).reason.find(" beside "), std::string::npos);
}

TEST(NodeMemory, WarnsWhereFilesNeedMoreThanHalfOfIt) {
  const config::Config config = copying(1);
  Target target = devices(8);
  target.machine.host.memory_bytes = 1000;
  const NodeMemory half{.written = 100, .files = 500}, more{.written = 100, .files = 501};
  EXPECT_EQ(text_of(half, config, target),
            "copies of the states in the memory of a node: 600 B, 500 B of them in /dev/shm; it has 1000 B\n");
  EXPECT_NE(text_of(more, config, target).find("warning: /dev/shm may take 500 B where nobody set its size"),
            std::string::npos);
  EXPECT_EQ(text_of(NodeMemory{}, config, target), "");
  target.machine.host = {};
  EXPECT_EQ(text_of(more, config, target),
            "copies of the states in the memory of a node: 601 B, 501 B of them in /dev/shm (small states no memory in "
            "[host])\n");
  EXPECT_TRUE(json_of(more, target)["of_bytes"].is_null());
  EXPECT_EQ(json_of(more, target)["bytes"], 601);
}

// Three copies of two ranks each: the states of each copy, and once what all have in common.
TEST(CopiedStates, CountCopiesThatMakeStepsByThemselves) {
  config::Config config = small_gpt(4);
  config.train.global_batch = 12;
  config.train.micro_batch = 1;
  config.layout.sharding = config::Sharding::hybrid;
  config.layout.shard_group = 2;
  const auto bytes = [&] { return checkpoint_estimate(predict(config, devices(6)), devices(6)).bytes; };
  const double without = bytes();
  config.layout.outer_every = 8;
  const auto parameters = static_cast<double>(predict(config, devices(6)).parameters);
  EXPECT_EQ(without, 12 * parameters);
  const PlannedRun run = planned_run(config, devices(6));
  int64_t padded = 0;  // of the flat buffers
  for (const int64_t segment : run.stages.front().held) padded += run.padded_elements(segment);
  EXPECT_GT(padded, parameters);
  EXPECT_DOUBLE_EQ(bytes(), 12 * parameters + (3 * 12 + 8) * static_cast<double>(padded));
}

}  // namespace
}  // namespace terrace::plan
