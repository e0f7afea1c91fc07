// Compares the bytes that a run reads with numbers worked out by hand.
#include "terrace/plan/calendar/storage_need.h"

#include <gtest/gtest.h>

#include "tests/plan/small_gpt.h"
#include "tests/plan/small_machine.h"

namespace terrace::plan {
namespace {

// Eight devices on two nodes of four.
Target two_nodes() { return {.machine = small_machine(), .software = {}, .devices = 8}; }

StepReads reads_of(const config::Config& config) { return step_reads(planned_run(config, two_nodes())); }

// A sample has 17 tokens of 2 bytes.
TEST(StorageNeed, BytesOfAStepByNode) {
  config::Config config = small_gpt(4);
  EXPECT_DOUBLE_EQ(reads_of(config).all, 8 * 34);
  EXPECT_DOUBLE_EQ(reads_of(config).node, 4 * 34);
  config.layout.tensor = 2;  // two data-parallel ranks on each node, with two samples each, which two ranks share
  EXPECT_DOUBLE_EQ(reads_of(config).all, 8 * 34);
  EXPECT_DOUBLE_EQ(reads_of(config).node, 4 * 34);
  config.layout.tensor = 1;
  config.layout.pipeline = 2;  // the first node has the inputs of all samples, the second their losses
  config.layout.stage_layers = {2, 2};
  EXPECT_DOUBLE_EQ(reads_of(config).all, 2 * 8 * 34);
  EXPECT_DOUBLE_EQ(reads_of(config).node, 8 * 34);
  config.layout.tensor = 2;
  config.layout.pipeline = 4;  // one data-parallel rank
  config.layout.stage_layers = {1, 1, 1, 1};
  EXPECT_DOUBLE_EQ(reads_of(config).all, 2 * 8 * 34);
  models::gpt::model_of(config).vocabulary = 65'537;
  EXPECT_DOUBLE_EQ(reads_of(config).all, 2 * 8 * 68);
}

// Four stages of two ranks: those between the first and the last read nothing.
TEST(StorageNeed, StagesInsideAPipelineReadNothing) {
  config::Config config = small_gpt(4);
  config.layout.pipeline = 4;
  config.layout.stage_layers = {1, 1, 1, 1};
  EXPECT_DOUBLE_EQ(reads_of(config).all, 2 * 8 * 34);
  EXPECT_DOUBLE_EQ(reads_of(config).node, 8 * 34);
}

// 272 bytes at 40 bytes/s take longer than 136 bytes of each node at 30 bytes/s.
TEST(StorageNeed, SharesOfTheStorage) {
  const config::Config config = small_gpt(4);
  Target target = two_nodes();
  target.machine.storage = {.node_bandwidth = 30, .total_bandwidth = 40};
  RunCost cost;
  cost.checkpoint.bytes = 1200;
  cost.checkpoint_interval_seconds = 100;
  cost.course.saves = 3;
  const StorageNeed need = storage_need(planned_run(config, target), cost, 10, target);
  EXPECT_DOUBLE_EQ(need.read_seconds, 6.8);
  EXPECT_DOUBLE_EQ(need.read_share, 0.68);
  EXPECT_DOUBLE_EQ(need.write_share, 0.3);
  EXPECT_FALSE(need.exceeds_storage());
  EXPECT_EQ(text_of(need, target),
            "    data of a step: 272 B, at most 136 B a node; 68% of the storage's rate, and checkpoints "
            "30%\n");
}

TEST(StorageNeed, WarnsWhereStepsWaitForData) {
  config::Config config = small_gpt(4);
  Target target = two_nodes();
  target.machine.storage = {.node_bandwidth = 2, .total_bandwidth = 1000};
  const auto need = [&] { return storage_need(planned_run(config, target), {}, 10, target); };
  EXPECT_NE(text_of(need(), target)
                .find("warning: the storage gives the data of a step in 1 min 08 s (136 B for each node at 2 B/s, "
                      "[storage] node_bandwidth), and the step takes 10.0 s: steps wait for data"),
            std::string::npos)
      << text_of(need(), target);
  EXPECT_TRUE(json_of(need())["exceeds_storage"].get<bool>());
  target.machine.storage = {};
  EXPECT_EQ(text_of(need(), target), "    data of a step: 272 B, at most 136 B a node\n");
}

}  // namespace
}  // namespace terrace::plan
