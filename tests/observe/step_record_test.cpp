// A step's record is written and read back whole, and a file that is none is refused.
#include "terrace/observe/step_record.h"

#include <gtest/gtest.h>

#include <fstream>

#include "terrace/base/error.h"
#include "tests/scratch_folder.h"

namespace terrace::observe {
namespace {

StepRecord example() {
  return {
      .source = "measured",
      .machine = "ours",
      .software = "terrace",
      .step = 5,
      .step_seconds = 1.5,
      .model_flops = 2e12,
      .peak_flops = 4e12,
      .memory_bandwidth = 3e10,
      .links = {"node"},
      .stages = {{.stage = 0,
                  .rank = 1,
                  .seconds = {{"forward", 0.5}, {"backward", 1}},
                  .memory_bytes = {{"weights", 100}, {"gradients", 50}},
                  .events = {{.name = "F0 segment 1", .kind = "forward", .lane = 0, .begin = 0, .end = 0.5}},
                  .memory = {{.seconds = 0.25, .bytes = 150}}}},
      .groups =
          {{.name = "tensor", .tier = "node", .stage = 1, .bytes = 8, .moving_seconds = 0.25, .waiting_seconds = 0.125},
           {.name = "stages", .bytes = 4, .moving_seconds = 0.5, .waiting_seconds = std::nullopt}},
      .operations = {{.name = "products", .seconds = 1, .flops = 1e12, .bytes = 1e9}}};
}

TEST(StepRecord, ReadsBackEqual) {
  const ScratchFolder folder;
  const auto path = folder.path() / measured_step_file;
  write_step_record(example(), path);
  EXPECT_EQ(read_step_record(path), example());
}

TEST(StepRecord, EarlierVersionHasNoStagesOfGroups) {
  Json json = json_of(example());
  json["groups"].at(0).erase("stage");
  EXPECT_EQ(step_record_of(json).groups.at(0).stage, -1);
}

TEST(StepRecord, AFileThatIsNoneIsRefusedByName) {
  const ScratchFolder folder;
  const auto path = folder.path() / "step.json";
  std::ofstream(path) << R"({"source": "measured"})";
  try {
    read_step_record(path);
    FAIL() << "was read";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("step.json"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("machine"), std::string::npos) << error.what();
  }
}

TEST(NamedFigures, FindsByNameAndSums) {
  const StageRecord stage = example().stages.front();
  EXPECT_EQ(figure(stage.memory_bytes, "gradients"), 50);
  EXPECT_EQ(figure(stage.memory_bytes, "slack"), 0);
  EXPECT_EQ(sum(stage.seconds), 1.5);
}

}  // namespace
}  // namespace terrace::observe
