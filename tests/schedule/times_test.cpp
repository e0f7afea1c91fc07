// Compares simulated steps with times worked out by hand and with the formulas of the bubbles.
#include "terrace/schedule/step/times.h"

#include <gtest/gtest.h>

#include <array>

#include "tests/schedule/lists.h"

namespace terrace::schedule {
namespace {

using config::PipelineSchedule;
using Kind = Instruction::Kind;

TimeInterval interval_of(const ScheduleTimes& times, const std::vector<Instructions>& lists, size_t stage,
                         const std::string& name) {
  for (size_t i = 0; i < lists[stage].size(); ++i) {
    if (to_string(lists[stage][i]) == name) return times.intervals[stage][i];
  }
  ADD_FAILURE() << "stage " << stage << " has no " << name;
  return {};
}

// Forward 2, backward 3 + 1, transfer 0.5:
//   stage 0   F0 0-2  F1 2-4                               B0 9-13   B1 15-19
//   stage 1           F0 2.5-4.5  B0 4.5-8.5  F1 8.5-10.5  B1 10.5-14.5
// Stage 0 has the gradient for B0 at 8.5 + 0.5 and that for B1 at 14.5 + 0.5.
TEST(Times, TwoStagesMatchHandCalculation) {
  const Pipeline pipeline{PipelineSchedule::one_f_one_b, 2, 2, 1};
  const auto lists = instructions(pipeline);
  const ScheduleTimes times = simulate_schedule(lists, placement(pipeline), balanced({2, 3, 1}, 0.5));
  const auto at = [&](size_t stage, const char* name) { return interval_of(times, lists, stage, name); };
  EXPECT_EQ(at(0, "F0"), (TimeInterval{0, 2}));
  EXPECT_EQ(at(0, "F1"), (TimeInterval{2, 4}));
  EXPECT_EQ(at(0, "B0"), (TimeInterval{9, 13}));
  EXPECT_EQ(at(0, "B1"), (TimeInterval{15, 19}));
  EXPECT_EQ(at(1, "F0"), (TimeInterval{2.5, 4.5}));
  EXPECT_EQ(at(1, "B0"), (TimeInterval{4.5, 8.5}));
  EXPECT_EQ(at(1, "F1"), (TimeInterval{8.5, 10.5}));
  EXPECT_EQ(at(1, "B1"), (TimeInterval{10.5, 14.5}));
  // No stage begins the optimizer step before all stages have reached it.
  EXPECT_EQ(at(0, "step"), (TimeInterval{19, 19}));
  EXPECT_EQ(at(1, "step"), (TimeInterval{19, 19}));
  EXPECT_EQ(times.seconds, 19);
  EXPECT_EQ(times.busy_seconds, 24);
  EXPECT_EQ(times.bubble_share(), 1 - 24.0 / 38.0);
}

// Two stages in a V, one micro-batch, each computation takes one unit:
//   stage 0   F0 0-1                     F0.1 3-4  I0.1 4-5  W0.1 5-6                      I0 8-9  W0 9-10
//   stage 1           F0 1-2   F0.1 2-3                      I0.1 5-6  W0.1 6-7  I0 7-8    W0 8-9
TEST(Times, VeeMatchesHandCalculation) {
  const Pipeline pipeline{PipelineSchedule::zb_v, 2, 1, 2};
  const auto lists = instructions(pipeline);
  const ScheduleTimes times = simulate_schedule(lists, placement(pipeline), balanced({}));
  const std::vector<std::pair<const char*, std::array<double, 2>>> starts = {
      {"F0", {0, 1}}, {"F0.1", {3, 2}}, {"I0.1", {4, 5}}, {"W0.1", {5, 6}}, {"I0", {8, 7}}, {"W0", {9, 8}}};
  for (const auto& [name, start] : starts) {
    for (const size_t stage : {0, 1}) {
      EXPECT_EQ(interval_of(times, lists, stage, name), (TimeInterval{start[stage], start[stage] + 1}))
          << stage << ", " << name;
    }
  }
  EXPECT_EQ(times.seconds, 10);
  EXPECT_EQ(times.busy_seconds, 12);
}

// A send occupies the sender and a post occupies the receiver; the transfer begins after both.
TEST(Times, CountWhatSendsReceivesAndTheStepCostTheirStage) {
  const std::vector<Instructions> lists = {
      {{Kind::forward}, {Kind::send_activation, 0, 0, 1}, {Kind::optimizer_step}},
      {{Kind::receive_activation, 0, 0, 0}, {Kind::forward}, {Kind::optimizer_step}}};
  const auto seconds = [](int64_t stage, const Instruction& instruction) {
    if (is_receive(instruction.kind)) return 10.0;
    if (is_send(instruction.kind)) return 2.0;
    return instruction.kind == Kind::optimizer_step ? 1.0 : 3.0 + static_cast<double>(stage);
  };
  const ScheduleTimes times = simulate_schedule(lists, {2, 1}, {seconds, 0.25});
  EXPECT_EQ(times.intervals[0], (std::vector<TimeInterval>{{0, 3}, {3, 5}, {14.25, 15.25}}));
  EXPECT_EQ(times.intervals[1], (std::vector<TimeInterval>{{0, 10}, {10.25, 14.25}, {14.25, 15.25}}));
}

// Whether there are enough micro-batches for the formula to be exact.
bool formula_holds(const Pipeline& pipeline) {
  switch (pipeline.schedule) {
    case PipelineSchedule::interleaved:
      return pipeline.chunks == 1 || pipeline.micro_batches % pipeline.stages == 0;
    case PipelineSchedule::zb_h1:
      return pipeline.micro_batches >= pipeline.stages;
    case PipelineSchedule::zb_v:
      return pipeline.micro_batches >= 2 * pipeline.stages - 2;
    default:
      return true;
  }
}

void expect_formula(const Pipeline& pipeline, const ChunkCosts& costs) {
  SCOPED_TRACE(text(pipeline));
  const ScheduleTimes times = simulate_schedule(instructions(pipeline), placement(pipeline), balanced(costs));
  const double busy = static_cast<double>(pipeline.micro_batches * pipeline.chunks) *
                      (costs.forward + costs.input_gradient + costs.weight_gradient);
  if (formula_holds(pipeline)) {
    EXPECT_EQ(times.seconds, busy + bubble_seconds(pipeline, costs));
    EXPECT_NEAR(times.bubble_share(), bubble_share(pipeline, costs), 1e-15);  // two roundings of numbers below 1
  } else {
    EXPECT_GT(times.seconds, busy + bubble_seconds(pipeline, costs));
  }
}

TEST(Bubble, MatchesTheFormulaWithEqualCosts) {
  for (const Pipeline& pipeline : all_pipelines()) expect_formula(pipeline, {});
}

// Integer costs, so that sums are exact.
TEST(Bubble, MatchesTheFormulaWithOtherCosts) {
  const std::vector<ChunkCosts> all_costs = {{5, 6, 5}, {4, 6, 3}, {6, 4, 4}, {1, 5, 1}, {9, 2, 1}};
  for (const Pipeline& pipeline : all_pipelines()) {
    if (pipeline.schedule == PipelineSchedule::zb_v || !formula_holds(pipeline)) continue;
    for (const ChunkCosts& costs : all_costs) expect_formula(pipeline, costs);
  }
}

// Four stages, eight micro-batches, in units of a whole stage: 3 * 8 busy and 9, 4.5, 3 or 1.5 idle.
TEST(Bubble, ShrinksFromScheduleToSchedule) {
  const auto share = [](PipelineSchedule schedule, int64_t chunks) {
    const double unit = 1.0 / static_cast<double>(chunks);
    return bubble_share({schedule, 4, 8, chunks}, {unit, unit, unit});
  };
  EXPECT_DOUBLE_EQ(share(PipelineSchedule::gpipe, 1), 9.0 / 33.0);
  EXPECT_DOUBLE_EQ(share(PipelineSchedule::one_f_one_b, 1), 9.0 / 33.0);
  EXPECT_DOUBLE_EQ(share(PipelineSchedule::interleaved, 2), 4.5 / 28.5);
  EXPECT_DOUBLE_EQ(share(PipelineSchedule::zb_h1, 1), 3.0 / 27.0);
  EXPECT_DOUBLE_EQ(share(PipelineSchedule::zb_v, 2), 1.5 / 25.5);
}

// Even with too few micro-batches for the formulas, no schedule takes longer than 1F1B.
TEST(Bubble, NeverLargerThanThatOfOneForwardOneBackward) {
  for (const Pipeline& pipeline : all_pipelines()) {
    SCOPED_TRACE(text(pipeline));
    const auto chunks = static_cast<double>(pipeline.chunks);
    const ScheduleTimes times = simulate_schedule(instructions(pipeline), placement(pipeline), balanced({}));
    const auto plain = static_cast<double>(3 * (pipeline.micro_batches + pipeline.stages - 1));
    EXPECT_LE(times.seconds, plain * chunks);
  }
}

}  // namespace
}  // namespace terrace::schedule
