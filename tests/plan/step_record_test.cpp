// The record of a simulated step: its seconds add up to the step, and its memory stays within the counted one.
#include "terrace/plan/step_record.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "terrace/plan/memory_over_time.h"
#include "tests/plan/small_gpt.h"
#include "tests/plan/small_machine.h"

namespace terrace::plan {
namespace {

config::Config on_two_stages(config::PipelineSchedule schedule, int64_t chunks) {
  config::Config config = small_gpt(4);
  config.layout.pipeline = 2;
  config.layout.chunks = chunks;
  config.layout.schedule = schedule;
  return config;
}

TEST(PredictedStep, SecondsOfEachStageAddUpToTheStep) {
  const Target target{.machine = small_machine(), .software = {}, .devices = 4};
  const PlannedRun run = planned_run(on_two_stages(config::PipelineSchedule::one_f_one_b, 1), target);
  const SimulatedStep step(run, target);
  const observe::StepRecord record = step_record(step, predict(step), {0, 1});
  ASSERT_EQ(record.stages.size(), 2);
  for (const observe::StageRecord& stage : record.stages) {
    EXPECT_NEAR(observe::sum(stage.seconds), record.step_seconds, 0.02 * record.step_seconds) << stage.stage;
    EXPECT_GT(observe::figure(stage.seconds, "forward"), 0);
    EXPECT_GT(observe::figure(stage.seconds, "update"), 0);
  }
  ASSERT_FALSE(record.groups.empty());
  for (const observe::GroupRecord& group : record.groups) {
    EXPECT_GT(group.bytes, 0) << group.name;
    EXPECT_GT(group.moving_seconds, 0) << group.name;
  }
  EXPECT_EQ(record.operations.front().name, "products");
}

// What is taken is freed within the step, and the counted memory is a bound of it.
TEST(MemoryOverTime, ReturnsToTheStatesAndStaysWithinTheCountedMemory) {
  using enum config::PipelineSchedule;
  const Target target{.machine = small_machine(), .software = {}, .devices = 4};
  for (const auto& [schedule, chunks] : {std::pair(one_f_one_b, 1), std::pair(zb_h1, 1), std::pair(zb_v, 2)}) {
    for (const auto sharding : {config::Sharding::ddp, config::Sharding::zero3}) {
      config::Config config = on_two_stages(schedule, chunks);
      config.layout.sharding = sharding;
      const PlannedRun run = planned_run(config, target);
      const SimulatedStep step(run, target);
      for (int64_t stage = 0; stage < 2; ++stage) {
        const std::vector<observe::MemorySample> samples = memory_over_time(step, stage);
        const double counted = stage_memory(run, stage, target.software).total();
        const double most = std::ranges::max_element(samples, {}, &observe::MemorySample::bytes)->bytes;
        EXPECT_LE(most, counted * (1 + 1e-9));
        EXPECT_GT(most, 0.6 * counted);
        EXPECT_NEAR(samples.back().bytes, samples.front().bytes, 1);
      }
    }
  }
}

}  // namespace
}  // namespace terrace::plan
