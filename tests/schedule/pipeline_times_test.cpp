// Compares the times of chunks with times worked out by hand, and with those of the complete lists.
#include "terrace/schedule/pipeline/pipeline_times.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "terrace/schedule/step/step_times.h"
#include "tests/schedule/lists.h"

namespace terrace::schedule {
namespace {

using config::PipelineSchedule;
using Kind = Instruction::Kind;
using StepKind = StepInstruction::Kind;

// Sums of these are exact in double precision, so all times compare exactly.
constexpr double unit = 1.0 / 64;

// An irregular whole number of units for three numbers, from 1 to `most` units.
double irregular(int64_t a, int64_t b, int64_t c, int64_t most) {
  return unit * static_cast<double>(1 + (a * 71 + b * 37 + c * 113 + a * b * 5) % most);
}

double sum(const PipelineStageTimes& times) {
  return times.busy_seconds + times.weights_seconds + times.reductions_seconds + times.sends_seconds +
         times.idle_seconds;
}

// Forward 2, backward 3 + 1, transfer 0.5, as in times_test.cpp:
//   stage 0   F0 0-2  F1 2-4                               B0 9-13   B1 15-19
//   stage 1           F0 2.5-4.5  B0 4.5-8.5  F1 8.5-10.5  B1 10.5-14.5
TEST(PipelineTimes, TwoStagesMatchHandCalculation) {
  const Pipeline pipeline{PipelineSchedule::one_f_one_b, 2, 2, 1};
  const StageChunkCosts chunk{
      .forward = 2, .input_gradient = 3, .weight_gradient = 1, .send_activation = 0.5, .send_gradient = 0.5};
  const auto lists = instructions(pipeline);
  const PipelineTimes times = simulate_pipeline(PipelineOrder(pipeline), {.chunks = {chunk, chunk}}, true);
  EXPECT_EQ(times.seconds, 19);
  for (const size_t stage : {0, 1}) {
    EXPECT_EQ(times.stages[stage].busy_seconds, 12);
    EXPECT_EQ(times.stages[stage].idle_seconds, 7);
    ASSERT_EQ(times.stages[stage].intervals.size(), lists[stage].size());
    EXPECT_EQ(times.stages[stage].intervals.back(), (TimeInterval{19, 19}));
  }
  std::vector<TimeInterval> second;
  for (size_t i = 0; i < lists[1].size(); ++i) {
    if (is_computation(lists[1][i].kind)) second.push_back(times.stages[1].intervals[i]);
  }
  EXPECT_EQ(second, (std::vector<TimeInterval>{{2.5, 4.5}, {4.5, 8.5}, {8.5, 10.5}, {10.5, 14.5}}));
}

// The times are those of the test above, but stage 0 sends F0 2-2.5 and F1 4.5-5, and stage 1 sends B0 8.5-9 and begins
// F1 and B1 later by 0.5.
TEST(PipelineTimes, SendsThatOccupyTheStageMatchHandCalculation) {
  const StageChunkCosts chunk{
      .forward = 2, .input_gradient = 3, .weight_gradient = 1, .send_activation = 0.5, .send_gradient = 0.5};
  const PipelineTimes times = simulate_pipeline(PipelineOrder({PipelineSchedule::one_f_one_b, 2, 2, 1}),
                                                {.chunks = {chunk, chunk}, .sends_occupy_stage = true});
  EXPECT_EQ(times.seconds, 19.5);
  EXPECT_EQ(times.stages[0].sends_seconds, 1);
  EXPECT_EQ(times.stages[1].sends_seconds, 1);
  EXPECT_EQ(times.stages[0].idle_seconds, 19.5 - 12 - 1);
}

// One stage, two micro-batches and three segments with forward 1 and backward 2; weights arrive at 2, 4 and 6, and a
// reduction takes 3.
TEST(PipelineTimes, WaitForWeightsAndReductions) {
  StageChunkCosts chunk{.forward = 3, .input_gradient = 4, .weight_gradient = 2};
  chunk.weights = {.first_seconds = 2, .last_seconds = 6, .last_forward_seconds = 1};
  chunk.reductions = {.first_seconds = 2, .all_seconds = 9, .last_seconds = 3};
  const PipelineOrder order({PipelineSchedule::gpipe, 1, 2, 1});
  const PipelineTimes times = simulate_pipeline(order, {.chunks = {chunk}, .finish_seconds = {0.5}});
  // F0 2-7, F1 until 10, B0 until 16, B1 until 22; reductions 18-27; then the sums of tied parameters.
  EXPECT_EQ(times.seconds, 27.5);
  EXPECT_EQ(times.stages[0].busy_seconds, 18.5);
  EXPECT_EQ(times.stages[0].weights_seconds, 4);
  EXPECT_EQ(times.stages[0].reductions_seconds, 5);
  EXPECT_EQ(times.stages[0].idle_seconds, 0);
  // If each segment waits for the reduction before the last, B1 takes until 24 and the last reduction as long as
  // before.
  chunk.reductions.wait_seconds = 2;
  const PipelineTimes waiting = simulate_pipeline(order, {.chunks = {chunk}, .finish_seconds = {0.5}});
  EXPECT_EQ(waiting.seconds, 27.5);
  EXPECT_EQ(waiting.stages[0].reductions_seconds, 5);
}

// A model whose virtual stages have one to three segments, and the costs of one run of it.
struct Case {
  Pipeline pipeline;
  bool has_loss = false;    // the last virtual stage ends in the loss
  bool moves = false;       // weights arrive while the step has begun, and gradients are reduced at its end
  int64_t most_reduce = 1;  // units of the longest reduction

  int64_t segments_of(int64_t virtual_stage) const { return 1 + (virtual_stage * 7 + pipeline.micro_batches) % 3; }
  double forward(int64_t stage, int64_t segment) const { return moves ? uniform(stage, 0) : each(stage, segment, 0); }
  double input_gradient(int64_t stage, int64_t segment) const {
    return moves ? uniform(stage, 1) : each(stage, segment, 1);
  }
  double weight_gradient(int64_t stage, int64_t segment) const {
    return moves ? uniform(stage, 2) : each(stage, segment, 2);
  }
  double loss() const { return 40 * unit; }
  double send(int64_t stage, int64_t chunk, bool gradient) const { return irregular(stage, chunk, gradient, 9); }
  double gather(int64_t stage) const { return irregular(stage, 1, 4, 99); }
  double reduce(int64_t stage) const { return irregular(stage, 2, 5, most_reduce); }
  double finish(int64_t stage) const { return irregular(stage, 3, 6, 30); }

 private:
  static double each(int64_t stage, int64_t segment, int64_t pass) { return irregular(stage, segment, pass, 41); }
  static double uniform(int64_t stage, int64_t pass) { return 8 * unit + irregular(stage, 0, pass, 41); }
};

struct Model {
  std::vector<Instructions> lists;
  std::vector<StageSegments> stages;
};

Model model_of(const Case& of) {
  const Placement placed = placement(of.pipeline);
  std::vector<std::vector<int64_t>> virtual_stages;
  int64_t segments = 0;
  for (int64_t i = 0; i < placed.virtual_stages(); ++i) {
    std::vector<int64_t>& list = virtual_stages.emplace_back();
    for (int64_t k = 0; k < of.segments_of(i); ++k) list.push_back(segments++);
  }
  if (of.has_loss) virtual_stages.back().push_back(segments);
  Model model{instructions(of.pipeline), {}};
  for (int64_t stage = 0; stage < of.pipeline.stages; ++stage) {
    StageSegments mine{.chunks = {}, .last = segments, .reads = {}, .held = {}, .copies = {}};
    for (int64_t segment = 0; segment <= segments; ++segment) mine.reads.push_back({segment});
    for (int64_t chunk = 0; chunk < of.pipeline.chunks; ++chunk) {
      mine.chunks.push_back(virtual_stages[static_cast<size_t>(placed.virtual_stage(stage, chunk))]);
      if (of.moves) mine.held.insert(mine.held.end(), mine.chunks.back().begin(), mine.chunks.back().end());
    }
    model.stages.push_back(mine);
  }
  return model;
}

// The sends to each other stage have a link of their own, as have the movements.
constexpr int64_t gather_link = 0, reduce_link = 1, first_send_link = 2;

StepCosts step_costs(const Case& of) {
  return {.seconds = [of](int64_t stage, const StepInstruction& one) -> double {
            switch (one.kind) {
              case StepKind::forward:
                return of.forward(stage, one.segment);
              case StepKind::loss:
                return of.loss();
              case StepKind::backward:
                return of.input_gradient(stage, one.segment) + of.weight_gradient(stage, one.segment);
              case StepKind::input_gradient:
                return of.input_gradient(stage, one.segment);
              case StepKind::weight_gradient:
                return of.weight_gradient(stage, one.segment);
              case StepKind::send_activation:
              case StepKind::send_gradient:
                return of.send(stage, one.chunk, one.kind == StepKind::send_gradient);
              case StepKind::begin_movement:
                return one.movement == Movement::publish ? of.gather(stage) : of.reduce(stage);
              case StepKind::finish_gradients:
                return of.finish(stage);
              default:
                return 0;
            }
          },
          .link =
              [](int64_t, const StepInstruction& one) {
                if (one.kind == StepKind::begin_movement)
                  return one.movement == Movement::publish ? gather_link : reduce_link;
                return first_send_link + one.peer;
              },
          .num_links = first_send_link + of.pipeline.stages};
}

// The complete lists; with movements, those of the previous step's updated weights begin with the step.
std::vector<StepInstructions> step_lists(const Case& of, const Model& model) {
  const Movements movements =
      of.moves ? Movements{.after_last = {Movement::reduce_replicas}, .publishes = true} : Movements{};
  std::vector<StepInstructions> lists;
  for (size_t stage = 0; stage < model.lists.size(); ++stage) {
    StepInstructions list;
    for (const int64_t segment : model.stages[stage].held)
      list.push_back({.kind = StepKind::begin_movement, .segment = segment, .movement = Movement::publish});
    const auto step = training_step(model.lists[stage], of.pipeline.micro_batches, model.stages[stage], movements);
    list.insert(list.end(), step.begin(), step.end());
    lists.push_back(list);
  }
  return lists;
}

StageChunkCosts chunk_costs(const Case& of, const StageSegments& segments, int64_t stage, int64_t chunk,
                            double gathered_before) {
  StageChunkCosts costs;
  const std::vector<int64_t>& list = segments.chunks[static_cast<size_t>(chunk)];
  double bodies = 0;
  for (const int64_t segment : list) {
    if (segment == segments.last) {
      costs.forward += of.loss();
      continue;
    }
    ++bodies;
    costs.forward += of.forward(stage, segment);
    costs.input_gradient += of.input_gradient(stage, segment);
    costs.weight_gradient += of.weight_gradient(stage, segment);
  }
  costs.send_activation = of.send(stage, chunk, false);
  costs.send_gradient = of.send(stage, chunk, true);
  if (!of.moves) return costs;
  costs.weights = {.first_seconds = gathered_before + of.gather(stage),
                   .last_seconds = gathered_before + bodies * of.gather(stage),
                   .last_forward_seconds = of.forward(stage, list.back())};
  const bool deferred =
      of.pipeline.schedule == PipelineSchedule::zb_h1 || of.pipeline.schedule == PipelineSchedule::zb_v;
  const double own = of.weight_gradient(stage, 0) + (deferred ? 0 : of.input_gradient(stage, 0));
  const double longer = std::max(0.0, of.reduce(stage) - own);
  costs.reductions = {.first_seconds = own,
                      .all_seconds = bodies * of.reduce(stage),
                      .last_seconds = of.reduce(stage),
                      .wait_seconds = deferred ? 0 : (bodies - 1) * longer};
  return costs;
}

PipelineCosts pipeline_costs(const Case& of, const Model& model) {
  PipelineCosts costs{.chunks = {}};
  for (int64_t stage = 0; stage < of.pipeline.stages; ++stage) {
    const StageSegments& segments = model.stages[static_cast<size_t>(stage)];
    double gathered = 0;
    for (int64_t chunk = 0; chunk < of.pipeline.chunks; ++chunk) {
      costs.chunks.push_back(chunk_costs(of, segments, stage, chunk, gathered));
      gathered += static_cast<double>(segments.chunks[static_cast<size_t>(chunk)].size()) * of.gather(stage);
    }
    costs.finish_seconds.push_back(of.finish(stage));
  }
  return costs;
}

// The intervals of a stage's computations and transfers in its complete list: of a chunk's segments together, with the
// wait for the reduction before the last, which ends where the last one begins.
std::vector<TimeInterval> chunk_intervals(const StepInstructions& list, const StageTimes& times) {
  std::vector<TimeInterval> intervals;
  const StepInstruction* before = nullptr;
  for (size_t i = 0; i < list.size() && list[i].kind != StepKind::finish_gradients; ++i) {
    const StepInstruction& one = list[i];
    if (one.kind == StepKind::begin_movement && before != nullptr && before->kind == StepKind::backward)
      intervals.back().end = std::max(intervals.back().end, times.intervals[i].start);
    if (one.micro_batch < 0) continue;
    const auto pass = [](StepKind kind) { return kind == StepKind::loss ? StepKind::forward : kind; };
    const bool goes_on = before != nullptr && pass(before->kind) == pass(one.kind) && before->chunk == one.chunk &&
                         before->micro_batch == one.micro_batch;
    if (goes_on) {
      intervals.back().end = times.intervals[i].end;
    } else {
      intervals.push_back(times.intervals[i]);
    }
    before = &one;
  }
  return intervals;
}

void expect_times_of_lists(const Case& of) {
  SCOPED_TRACE(text(of.pipeline) + (of.has_loss ? ", loss" : "") + (of.moves ? ", movements" : ""));
  const Model model = model_of(of);
  const std::vector<StepInstructions> lists = step_lists(of, model);
  const StepSimulation expected = simulate_step(lists, step_costs(of));
  const PipelineOrder order(of.pipeline, model.lists);
  const PipelineTimes found = simulate_pipeline(order, pipeline_costs(of, model), true);
  for (size_t stage = 0; stage < lists.size(); ++stage) {
    const auto norm = std::ranges::find(lists[stage], StepKind::norm, &StepInstruction::kind) - lists[stage].begin();
    ASSERT_EQ(found.seconds, expected.stages[stage].intervals[static_cast<size_t>(norm)].start);
    ASSERT_EQ(found.stages[stage].busy_seconds, expected.stages[stage].busy_seconds);
    ASSERT_EQ(sum(found.stages[stage]), found.seconds);
    ASSERT_GE(found.stages[stage].idle_seconds, 0);
    std::vector<TimeInterval> intervals = found.stages[stage].intervals;
    intervals.pop_back();  // the optimizer step
    ASSERT_EQ(intervals, chunk_intervals(lists[stage], expected.stages[stage])) << "stage " << stage;
  }
}

std::vector<Pipeline> pipelines() {
  std::vector<Pipeline> some = all_pipelines(8, 17);
  std::erase_if(some, [](const Pipeline& pipeline) { return pipeline.chunks > 3; });
  return some;
}

TEST(PipelineTimes, EqualThoseOfTheCompleteLists) {
  for (const Pipeline& pipeline : pipelines()) {
    expect_times_of_lists({.pipeline = pipeline});
    expect_times_of_lists({.pipeline = pipeline, .has_loss = true});
  }
}

// Reductions of at most 8 units are shorter than every computation of a segment. Longer ones delay computations; the
// times of whole chunks are exact where no other computation of the stage follows.
TEST(PipelineTimes, EqualThoseOfTheCompleteListsUnderMovements) {
  for (const Pipeline& pipeline : pipelines()) {
    expect_times_of_lists({.pipeline = pipeline, .moves = true, .most_reduce = 8});
    if (pipeline.chunks == 1) expect_times_of_lists({.pipeline = pipeline, .moves = true, .most_reduce = 200});
  }
}

// With one stage there is nothing to wait for.
TEST(PipelineTimes, OneStageTakesTheSumOfItsComputations) {
  for (const Pipeline& pipeline : all_pipelines(1, 5)) {
    const StageChunkCosts chunk{.forward = 3, .input_gradient = 2, .weight_gradient = 1};
    const std::vector<StageChunkCosts> chunks(static_cast<size_t>(pipeline.chunks), chunk);
    const PipelineTimes times = simulate_pipeline(PipelineOrder(pipeline), {.chunks = chunks});
    EXPECT_EQ(times.seconds, static_cast<double>(6 * pipeline.chunks * pipeline.micro_batches));
    EXPECT_EQ(times.stages[0].idle_seconds, 0);
  }
}

}  // namespace
}  // namespace terrace::schedule
