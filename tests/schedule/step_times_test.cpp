// Compares the times of complete lists with times worked out by hand, with closed forms and with those of pipelines.
#include "terrace/schedule/step/step_times.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "terrace/schedule/pipeline/pipeline.h"
#include "terrace/schedule/step/times.h"

namespace terrace::schedule {
namespace {

using config::PipelineSchedule;
using StepKind = StepInstruction::Kind;

StageSegments on_one_stage(int64_t segments) {
  StageSegments all{.chunks = {{}}, .last = segments - 1, .reads = {}, .held = {}, .copies = {}};
  for (int64_t segment = 0; segment < segments; ++segment) {
    all.chunks[0].push_back(segment);
    all.held.push_back(segment);
    all.reads.push_back({segment});
  }
  return all;
}

// A forward takes 1, a backward 2, the loss 3, a movement the given time; other instructions take no time.
StepCosts costs(double movement) {
  return {.seconds =
              [movement](int64_t, const StepInstruction& one) {
                switch (one.kind) {
                  case StepKind::forward:
                    return 1.0;
                  case StepKind::backward:
                    return 2.0;
                  case StepKind::loss:
                    return 3.0;
                  case StepKind::begin_movement:
                    return movement;
                  default:
                    return 0.0;
                }
              },
          .link = [](int64_t, const StepInstruction&) { return int64_t{0}; },
          .num_links = 1};
}

StepInstructions zero3_step(int64_t segments, int64_t prefetch) {
  const mesh::ShardSizes sizes{.weights = 2, .gradients = 2, .optimizer = 2, .ranks = 2};
  return training_step(instructions({PipelineSchedule::one_f_one_b, 1, 1, 1}).at(0), 1, on_one_stage(segments),
                       movements_of(sizes, false, prefetch));
}

TimeInterval interval_of(const StepSimulation& simulation, const StepInstructions& list, const std::string& text) {
  for (size_t i = 0; i < list.size(); ++i) {
    if (to_string(list[i]) == text) return simulation.stages[0].intervals[i];
  }
  ADD_FAILURE() << "no " << text;
  return {};
}

// A segment and a head, movements that take 2, one segment gathered ahead:
//   link     gather 0 0-2   gather 1 2-4            gather 0 4-6   reduce 1 7-9     reduce 0 9-11
//   compute                 F0 2-3      (wait) L1 4-7              B0 7-9           (waits until 11)
TEST(StepTimes, TwoSegmentsMatchHandCalculation) {
  const StepInstructions list = zero3_step(2, 1);
  const StepSimulation simulation = simulate_step({list}, costs(2));
  EXPECT_EQ(interval_of(simulation, list, "F0 segment 0"), (TimeInterval{2, 3}));
  EXPECT_EQ(interval_of(simulation, list, "L0 segment 1"), (TimeInterval{4, 7}));
  EXPECT_EQ(interval_of(simulation, list, "B0 segment 0"), (TimeInterval{7, 9}));
  EXPECT_EQ(interval_of(simulation, list, "begin reduce gradients of segment 1"), (TimeInterval{7, 9}));
  EXPECT_EQ(interval_of(simulation, list, "begin reduce gradients of segment 0"), (TimeInterval{9, 11}));
  EXPECT_EQ(simulation.seconds, 11);
  const StageTimes& stage = simulation.stages[0];
  EXPECT_EQ(stage.busy_seconds, 6);
  EXPECT_EQ(stage.moving_seconds[0], 10);
  EXPECT_EQ(stage.exposed_seconds[0], 2 + 1 + 2);
  EXPECT_EQ(stage.hidden_share(), 0.5);
}

// The step is that of the test above, and the stage is occupied for 1 at the end of each movement:
//   link     gather 0 0-2  gather 1 2-4     gather 0 5-7   reduce 1 8-10                 reduce 0 12-14
//   compute  (wait) codes 2-3  F0 3-4  codes 4-5  L1 5-8  codes 8-9  B0 9-11  codes 11-12  (wait) codes 14-15
TEST(StepTimes, CodingOccupiesTheStageAtTheEndOfAMovement) {
  StepCosts coding = costs(2);
  coding.seconds = [plain = coding.seconds](int64_t stage, const StepInstruction& one) {
    return one.kind == StepKind::end_movement ? 1.0 : plain(stage, one);
  };
  const StepInstructions list = zero3_step(2, 1);
  const StepSimulation simulation = simulate_step({list}, coding);
  EXPECT_EQ(interval_of(simulation, list, "F0 segment 0"), (TimeInterval{3, 4}));
  EXPECT_EQ(interval_of(simulation, list, "L0 segment 1"), (TimeInterval{5, 8}));
  EXPECT_EQ(interval_of(simulation, list, "B0 segment 0"), (TimeInterval{9, 11}));
  EXPECT_EQ(simulation.seconds, 15);
  EXPECT_EQ(simulation.stages[0].moving_seconds[0], 10 + 5);
  EXPECT_EQ(simulation.stages[0].exposed_seconds[0], (2 + 1) + 1 + 1 + 1 + (2 + 1));
}

// The step of two segments, where computations take twice as long while a movement is under way. Each computation does
// 1 of its work in the 2 seconds of a movement:
//   link     gather 0 0-2   gather 1 2-4   gather 0 4-6   reduce 1 8-10   reduce 0 11-13
//   compute                 F0 2-4         L1 4-8         B0 8-11
TEST(StepTimes, ComputationsTakeLongerBesideCalls) {
  StepCosts slowed = costs(2);
  slowed.beside_calls = 2;
  const StepInstructions list = zero3_step(2, 1);
  const StepSimulation simulation = simulate_step({list}, slowed);
  EXPECT_EQ(interval_of(simulation, list, "F0 segment 0"), (TimeInterval{2, 4}));
  EXPECT_EQ(interval_of(simulation, list, "L0 segment 1"), (TimeInterval{4, 8}));
  EXPECT_EQ(interval_of(simulation, list, "B0 segment 0"), (TimeInterval{8, 11}));
  EXPECT_EQ(interval_of(simulation, list, "begin reduce gradients of segment 0"), (TimeInterval{11, 13}));
  EXPECT_EQ(simulation.seconds, 13);
  EXPECT_EQ(simulation.stages[0].slowed_seconds, 3);
  EXPECT_EQ(simulation.stages[0].busy_seconds, 6 + 3);
  // Without movements nothing is slowed.
  slowed.seconds = costs(0).seconds;
  EXPECT_EQ(simulate_step({list}, slowed).seconds, simulate_step({list}, costs(0)).seconds);
}

// On links of their own, gathers no longer wait for reductions; only the last reduction is exposed.
TEST(StepTimes, MovementsOnDifferentLinksOverlap) {
  StepCosts two = costs(2);
  two.num_links = 2;
  two.link = [](int64_t, const StepInstruction& one) {
    return one.movement == Movement::reduce ? int64_t{1} : int64_t{0};
  };
  const StepSimulation simulation = simulate_step({zero3_step(4, 1)}, two);
  // The first gather 2, three forwards of 1 and waits of 1, the loss 3, backwards of 2, the last reduction 2.
  EXPECT_EQ(simulation.seconds, 2 + 6 + 3 + 6 + 2);
  EXPECT_EQ(simulation.stages[0].exposed_seconds[0], 2 + 3);
  EXPECT_EQ(simulation.stages[0].exposed_seconds[1], 2);
}

// Movements that take no longer than the computation at the same time are hidden, except the first gather and the last
// reduction.
TEST(StepTimes, ShortMovementsAreHiddenButTheFirstAndTheLast) {
  for (const int64_t segments : {2, 3, 9}) {
    const auto n = static_cast<double>(segments);
    for (const double movement : {0.25, 0.5}) {
      const StepSimulation simulation = simulate_step({zero3_step(segments, 1)}, costs(movement));
      EXPECT_DOUBLE_EQ(simulation.seconds, movement + (n - 1) + 3 + 2 * (n - 1) + movement)
          << segments << " " << movement;
    }
    // Without prefetch, each of the n uses in forward waits for its gather, each of the n - 1 uses in backward for
    // twice as long, since a reduction shares the link with the gather, and the end of the step for the last reduction.
    const StepSimulation late = simulate_step({zero3_step(segments, 0)}, costs(0.5));
    EXPECT_DOUBLE_EQ(late.stages[0].exposed_seconds[0], 0.5 * n + (0.5 + 0.5) * (n - 1) + 0.5) << segments;
  }
}

// A stage of one segment, with other costs: a forward 1, a backward 2, a send 1 and an all-reduce of gradients 4, all
// on one link.
StepCosts costs_of_pipeline() {
  StepCosts of = costs(4);
  of.seconds = [plain = of.seconds](int64_t stage, const StepInstruction& one) {
    return is_send(one.kind) ? 1.0 : plain(stage, one);
  };
  return of;
}

std::vector<StepInstructions> pipeline_lists(const Pipeline& pipeline, const Movements& movements) {
  const Placement placed = placement(pipeline);
  const auto chunk_lists = instructions(pipeline);
  std::vector<StepInstructions> lists;
  for (int64_t stage = 0; stage < pipeline.stages; ++stage) {
    // One segment for each virtual stage, none of which is the model's last segment.
    StageSegments segments{.chunks = {}, .last = placed.virtual_stages(), .reads = {}, .held = {}, .copies = {}};
    segments.reads.resize(static_cast<size_t>(placed.virtual_stages() + 1));
    for (int64_t chunk = 0; chunk < pipeline.chunks; ++chunk) {
      segments.chunks.push_back({placed.virtual_stage(stage, chunk)});
      if (movements.after_last.empty()) continue;
      segments.held.push_back(placed.virtual_stage(stage, chunk));
      segments.reads[static_cast<size_t>(segments.held.back())] = {segments.held.back()};
    }
    lists.push_back(
        training_step(chunk_lists[static_cast<size_t>(stage)], pipeline.micro_batches, segments, movements));
  }
  return lists;
}

// Three stages and one micro-batch. A stage begins its all-reduce and its send at the same time, so the send takes 2
// in place of 1, and the all-reduce, of which 1 is done by then, ends 5 after its beginning:
//   stage 0   F 0-1  send 1-2                                                  B 13-15  all-reduce 15-19
//   stage 1                    F 2-3  send 3-4                       B 9-11  send 11-13, all-reduce 11-16
//   stage 2                                     F 4-5  B 5-7  send 7-9, all-reduce 7-12
// With links of their own, the sends would end at 8 and 11, and the last all-reduce at 17.
TEST(StepTimes, SendsShareTheLinkWithReductions) {
  const auto lists =
      pipeline_lists({PipelineSchedule::one_f_one_b, 3, 1, 1}, {.after_last = {Movement::reduce_replicas}});
  const StepSimulation simulation = simulate_step(lists, costs_of_pipeline());
  const auto interval = [&](size_t stage, StepKind kind) {
    const auto found = std::ranges::find(lists[stage], kind, &StepInstruction::kind);
    return simulation.stages[stage].intervals.at(static_cast<size_t>(found - lists[stage].begin()));
  };
  EXPECT_EQ(interval(2, StepKind::backward), (TimeInterval{5, 7}));
  EXPECT_EQ(interval(2, StepKind::send_gradient), (TimeInterval{7, 9}));
  EXPECT_EQ(interval(2, StepKind::begin_movement), (TimeInterval{7, 12}));
  EXPECT_EQ(interval(1, StepKind::backward), (TimeInterval{9, 11}));
  EXPECT_EQ(interval(1, StepKind::send_gradient), (TimeInterval{11, 13}));
  EXPECT_EQ(interval(1, StepKind::begin_movement), (TimeInterval{11, 16}));
  EXPECT_EQ(interval(0, StepKind::backward), (TimeInterval{13, 15}));
  EXPECT_EQ(interval(0, StepKind::begin_movement), (TimeInterval{15, 19}));
  EXPECT_EQ(simulation.seconds, 19);
  // Waits for activations, for gradients, and for the norm of all stages.
  EXPECT_EQ(simulation.stages[0].stage_seconds, 0 + (13 - 1) + 0);
  EXPECT_EQ(simulation.stages[0].bubble_seconds, 0 + (11 - 1) + 0);
  EXPECT_EQ(simulation.stages[0].queued_seconds(), 2);
  EXPECT_EQ(simulation.stages[1].stage_seconds, 2 + (9 - 3) + (19 - 16));
  EXPECT_EQ(simulation.stages[1].bubble_seconds, 2 + (8 - 3) + (17 - 14));
  EXPECT_EQ(simulation.stages[2].stage_seconds, 4 + 0 + (19 - 12));
  EXPECT_EQ(simulation.stages[2].bubble_seconds, 4 + 0 + (17 - 11));
  EXPECT_EQ(simulation.stages[2].moving_seconds[0], 5);
}

// On a link of their own the sends take their time, and all waits are the bubble.
TEST(StepTimes, AllWaitsAreTheBubbleIfNoLinkIsShared) {
  StepCosts two = costs_of_pipeline();
  two.num_links = 2;
  two.link = [](int64_t, const StepInstruction& one) { return is_send(one.kind) ? int64_t{1} : int64_t{0}; };
  const auto lists =
      pipeline_lists({PipelineSchedule::one_f_one_b, 3, 1, 1}, {.after_last = {Movement::reduce_replicas}});
  const StepSimulation simulation = simulate_step(lists, two);
  EXPECT_EQ(simulation.seconds, 17);
  for (const StageTimes& stage : simulation.stages) {
    EXPECT_EQ(stage.stage_seconds, 10);
    EXPECT_EQ(stage.queued_seconds(), 0);
  }
}

// Without movements and with one segment per chunk, the complete lists take as long as the lists of the pipeline.
TEST(StepTimes, PipelinesTakeTheTimesOfTheirChunks) {
  for (const auto& [schedule, chunks] : {std::pair{PipelineSchedule::gpipe, 1},
                                         {PipelineSchedule::one_f_one_b, 1},
                                         {PipelineSchedule::interleaved, 2},
                                         {PipelineSchedule::zb_h1, 1},
                                         {PipelineSchedule::zb_v, 2}}) {
    for (const int64_t stages : {1, 2, 4}) {
      for (const int64_t micro_batches : {1, 3, 8}) {
        const Pipeline pipeline{schedule, stages, micro_batches, chunks};
        const auto lists = pipeline_lists(pipeline, {});
        const StepCosts step_costs{.seconds =
                                       [](int64_t, const StepInstruction& one) {
                                         switch (one.kind) {
                                           case StepKind::backward:
                                             return 4.0;
                                           case StepKind::forward:
                                           case StepKind::weight_gradient:
                                           case StepKind::input_gradient:
                                             return 2.0;
                                           case StepKind::send_activation:
                                           case StepKind::send_gradient:
                                             return 0.5;
                                           default:
                                             return 0.0;
                                         }
                                       },
                                   .link = [](int64_t, const StepInstruction&) { return int64_t{0}; }};
        const ScheduleTimes expected =
            simulate_schedule(instructions(pipeline), placement(pipeline), balanced({2, 2, 2}, 0.5));
        const StepSimulation found = simulate_step(lists, step_costs);
        EXPECT_DOUBLE_EQ(found.seconds, expected.seconds) << stages << " stages, " << micro_batches << " micro-batches";
        double busy = 0;
        for (const StageTimes& stage : found.stages) busy += stage.busy_seconds;
        EXPECT_DOUBLE_EQ(busy, expected.busy_seconds);
      }
    }
  }
}

}  // namespace
}  // namespace terrace::schedule
