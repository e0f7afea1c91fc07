// The record of a simulated step: its seconds add up to the step, and its memory stays within the counted one.
#include "terrace/plan/report/step_record.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>

#include "terrace/plan/memory/memory_over_time.h"
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
  for (const observe::CommunicationRecord& group : record.groups) {
    EXPECT_GT(group.bytes, 0) << group.name;
    EXPECT_GT(group.moving_seconds, 0) << group.name;
  }
  EXPECT_EQ(record.operations.front().name, "products");
}

observe::CommunicationRecord group_of(const observe::StepRecord& record, const std::string& name) {
  const auto found = std::ranges::find(record.groups, name, &observe::CommunicationRecord::name);
  return found == record.groups.end() ? observe::CommunicationRecord{} : *found;
}

// Calls that share the links of a tier are on different lanes, so a lane has one event at a time.
TEST(PredictedStep, OneEventAtATimeOnEachLane) {
  const Target target{.machine = machine_with_one_tier(), .software = {}, .devices = 4};
  config::Config config = on_two_stages(config::PipelineSchedule::interleaved, 2);
  config.layout.sharding = config::Sharding::zero1;
  const observe::StepRecord record = step_record(config, target);
  ASSERT_GE(record.links.size(), 2);
  EXPECT_EQ(record.links[0], "network");
  EXPECT_EQ(record.links[1], "network (2)");
  for (const observe::StageRecord& stage : record.stages) {
    for (size_t i = 1; i < stage.events.size(); ++i) {
      const observe::StepEvent &before = stage.events[i - 1], &one = stage.events[i];
      ASSERT_LE(one.lane, std::ssize(record.links));
      if (one.lane == before.lane) {
        EXPECT_LE(before.end, one.begin) << before.name << ", " << one.name;
      }
    }
  }
}

// Two tensor ranks send a half of what they sum twice over a link of 10 bytes/s, however much of it is hidden.
TEST(PredictedStep, TensorRanksSendAtTheRateOfTheirLink) {
  config::Config config = small_gpt(4);
  config.layout.tensor = 2;
  Target target{.machine = small_machine(), .software = {}, .devices = 2};
  for (const bool hides : {false, true}) {
    target.software.sums_while_computing = hides;
    const observe::CommunicationRecord tensor = group_of(step_record(config, target), "tensor");
    EXPECT_EQ(tensor.tier, "pair");
    EXPECT_NEAR(tensor.bytes / tensor.moving_seconds, 10, 1e-9);
    EXPECT_EQ(*tensor.waiting_seconds < tensor.moving_seconds, hides);
  }
}

// Each of two stages hands hidden states or their gradients of 16 x 24 fp32 numbers on, of four micro-batches.
TEST(PredictedStep, SendsOfAPipelineAreAGroup) {
  Target target{.machine = small_machine(), .software = {}, .devices = 4};
  const config::Config config = on_two_stages(config::PipelineSchedule::one_f_one_b, 1);
  const observe::CommunicationRecord sends = group_of(step_record(config, target), "stages");
  EXPECT_EQ(sends.bytes, 4 * 16 * 24 * 4);
  EXPECT_EQ(sends.tier, "node");
  EXPECT_NEAR(sends.moving_seconds, sends.bytes / 10, 1e-9);
  EXPECT_EQ(sends.waiting_seconds, std::nullopt);
  target.software.sends_while_computing = false;
  const observe::CommunicationRecord waited_for = group_of(step_record(config, target), "stages");
  EXPECT_EQ(waited_for.moving_seconds, sends.moving_seconds);
  EXPECT_EQ(waited_for.waiting_seconds, sends.moving_seconds);
  EXPECT_EQ(group_of(step_record(small_gpt(4), target), "stages").bytes, 0);
}

// The time that a group's calls are waited for is the same figure in the table of a stage's seconds and in that of the
// groups, and no more than the time of the calls, also where values are encoded and sums added up.
TEST(PredictedStep, WaitsForGroupsAreThoseOfTheStageThatIsNamed) {
  Target target{.machine = small_machine(), .software = {}, .devices = 8};
  target.software.gathers_while_computing = target.software.reduces_while_computing = false;
  for (const auto sharding : {config::Sharding::ddp, config::Sharding::zero1, config::Sharding::zero3}) {
    config::Config config = on_two_stages(config::PipelineSchedule::one_f_one_b, 1);
    config.layout.sharding = sharding;
    config.layout.reduce_type = config::WireType::int8;
    const observe::StepRecord record = step_record(config, target);
    for (const observe::CommunicationRecord& group : record.groups) {
      if (group.name == "stages") continue;
      const observe::StageRecord& stage = record.stages.at(static_cast<size_t>(group.stage));
      EXPECT_NEAR(observe::figure(stage.seconds, "waits for " + group.name), *group.waiting_seconds, 1e-9)
          << group.name;
      EXPECT_LE(*group.waiting_seconds, group.moving_seconds * (1 + 1e-9)) << group.name;
    }
  }
}

// Memory that is taken is freed within the step, and the counted memory is a bound of it.
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

// All of 24 stages have figures; the first, the last and those between at equal distances have events.
TEST(StepRecord, EventsAreThoseOfStagesSpreadOverAll) {
  config::Config config = small_gpt(24);
  config.layout.pipeline = 24;
  config.train.global_batch = 4;
  const observe::StepRecord record = step_record(config, {.machine = small_machine(), .software = {}, .devices = 24});
  ASSERT_EQ(record.stages.size(), 24u);
  std::vector<int64_t> with_events;
  for (const observe::StageRecord& stage : record.stages) {
    EXPECT_FALSE(stage.seconds.empty());
    if (!stage.events.empty()) with_events.push_back(stage.stage);
  }
  EXPECT_EQ(with_events, (std::vector<int64_t>{0, 1, 3, 4, 6, 7, 9, 10, 12, 13, 15, 16, 18, 19, 21, 23}));
}

}  // namespace
}  // namespace terrace::plan
