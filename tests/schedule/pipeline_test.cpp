// Validates every schedule for many shapes and compares a few lists with lists worked out by hand.
#include "terrace/schedule/pipeline/pipeline.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "terrace/schedule/pipeline/message.h"
#include "terrace/schedule/pipeline/validate.h"
#include "tests/schedule/lists.h"

namespace terrace::schedule {
namespace {

using config::PipelineSchedule;

#ifdef __SANITIZE_ADDRESS__  // takes seven times as long
constexpr int64_t most_stages = 8, most_micro_batches = 16;
#else
constexpr int64_t most_stages = 16, most_micro_batches = 64;
#endif

TEST(Schedules, ValidForAllStagesMicroBatchesAndChunks) {
  int64_t count = 0;
  for (const Pipeline& pipeline : all_pipelines(most_stages, most_micro_batches)) {
    EXPECT_EQ(validate(instructions(pipeline), placement(pipeline), pipeline.micro_batches, live_bounds(pipeline)), "")
        << text(pipeline);
    ++count;
  }
  // Four schedules have one number of chunks, interleaved has four.
  EXPECT_EQ(count, most_stages * most_micro_batches * (4 + 4));
}

Instructions without_receives(Instructions list) {
  std::erase_if(list, [](const Instruction& one) { return is_receive(one.kind); });
  return list;
}

// The place of the receive of each micro-batch and chunk among the instructions that are no receives.
std::map<std::string, size_t> places_of_receives(const Instructions& list) {
  std::map<std::string, size_t> places;
  size_t others = 0;
  for (const Instruction& one : list) {
    if (is_receive(one.kind)) {
      places[to_string(one)] = others;
    } else {
      ++others;
    }
  }
  return places;
}

// With careful posts a stage may wait at any computation until all of its transfers have moved, and the lists are valid
// too. Early posts, of which this is not true, come no later.
TEST(Schedules, CarefulPostsAllowAWaitForAllTransfersAtAnyComputation) {
  for (const Pipeline& pipeline : all_pipelines(most_stages / 2, most_micro_batches / 2)) {
    SCOPED_TRACE(text(pipeline));
    const Placement placed = placement(pipeline);
    const auto early = instructions(pipeline), careful = instructions(pipeline, Posting::careful);
    ASSERT_EQ(validate(careful, placed, pipeline.micro_batches, live_bounds(pipeline)), "");
    ASSERT_EQ(find_deadlock_of_drains(careful, placed, pipeline.micro_batches), "");
    for (size_t stage = 0; stage < early.size(); ++stage) {
      ASSERT_EQ(without_receives(early[stage]), without_receives(careful[stage]));
      const auto careful_places = places_of_receives(careful[stage]);
      for (const auto& [receive, place] : places_of_receives(early[stage])) {
        ASSERT_LE(place, careful_places.at(receive)) << receive;
      }
    }
  }
}

TEST(Schedules, EarlyPostsDeadlockWhereAStageWaitsForAllTransfers) {
  for (const Pipeline& pipeline : all_pipelines(4, 4)) {
    if (pipeline.stages == 1 || pipeline.micro_batches == 1) continue;
    EXPECT_NE(find_deadlock_of_drains(instructions(pipeline), placement(pipeline), pipeline.micro_batches), "")
        << text(pipeline);
  }
}

// Larger shapes, since the trainer is not limited to eight stages.
TEST(Schedules, ValidInLargeShapes) {
  for (const Pipeline& pipeline : {Pipeline{PipelineSchedule::gpipe, 24, 70, 1},
                                   {PipelineSchedule::one_f_one_b, 24, 70, 1},
                                   {PipelineSchedule::interleaved, 16, 61, 6},
                                   {PipelineSchedule::zb_h1, 24, 70, 1},
                                   {PipelineSchedule::zb_v, 24, 70, 2}}) {
    EXPECT_EQ(validate(instructions(pipeline), placement(pipeline), pipeline.micro_batches, live_bounds(pipeline)), "")
        << text(pipeline);
  }
}

// A stage may stay below its bound if the last group of micro-batches of interleaved is incomplete or if ZB-V has too
// few micro-batches to fill the pipeline.
bool meets_bound(const Pipeline& pipeline) {
  if (pipeline.schedule == PipelineSchedule::interleaved) return pipeline.micro_batches % pipeline.stages == 0;
  if (pipeline.schedule == PipelineSchedule::zb_v) return pipeline.micro_batches >= 2 * pipeline.stages - 2;
  return true;
}

// The bounds must be tight, or they would prove little.
TEST(Schedules, MeetTheirBounds) {
  for (const Pipeline& pipeline : all_pipelines()) {
    if (!meets_bound(pipeline)) continue;
    const auto lists = instructions(pipeline);
    for (int64_t stage = 0; stage < pipeline.stages; ++stage) {
      EXPECT_EQ(live_peak(lists[static_cast<size_t>(stage)]), live_bound(pipeline, stage))
          << text(pipeline) << ", stage " << stage;
    }
  }
}

// Backends connect these directions before a run, so the lists may use no other.
TEST(Schedules, SendInTheDirectionsOfTheirPlacement) {
  for (const Pipeline& pipeline : all_pipelines()) {
    std::set<std::pair<int64_t, int64_t>> used, directions;
    const auto lists = instructions(pipeline);
    for (int64_t stage = 0; stage < pipeline.stages; ++stage) {
      for (const Instruction& one : lists[static_cast<size_t>(stage)]) {
        if (is_send(one.kind)) used.insert({stage, one.peer});
      }
    }
    for (const auto& [from, to] : stage_directions(placement(pipeline)))
      EXPECT_TRUE(directions.insert({from, to}).second);
    EXPECT_EQ(used, directions) << text(pipeline);
  }
}

// docs/schedules.md states these numbers of receive buffers.
TEST(Schedules, PostAtMostFourReceivesAhead) {
  for (const Pipeline& pipeline : all_pipelines()) {
    const int64_t most = pipeline.schedule == PipelineSchedule::gpipe         ? 2
                         : pipeline.schedule == PipelineSchedule::interleaved ? 4
                                                                              : 3;
    for (const Instructions& list : instructions(pipeline)) EXPECT_LE(receive_peak(list), most) << text(pipeline);
  }
}

// A receive must be posted before the previous computation, so that the tensor can arrive while that computation runs.
TEST(Schedules, PostEachReceiveOneComputationAhead) {
  for (const Pipeline& pipeline : all_pipelines()) {
    const Placement placed = placement(pipeline);
    const auto lists = instructions(pipeline);
    for (int64_t stage = 0; stage < pipeline.stages; ++stage) {
      int64_t computed = 0;
      std::set<Message> fresh;  // posted since the last computation
      for (const Instruction& one : lists[static_cast<size_t>(stage)]) {
        if (is_receive(one.kind)) fresh.insert(*carried(one, placed, stage));
        if (!is_computation(one.kind)) continue;
        const auto message = taken(one, placed, stage);
        if (message && computed > 0) {
          EXPECT_FALSE(fresh.contains(*message)) << text(pipeline) << ", stage " << stage << ", " << to_string(one);
        }
        ++computed;
        fresh.clear();
      }
    }
  }
}

// If each computation takes one unit of time, stage 0 makes activation 1 while stage 1 computes F0, so stage 1 posts
// the receive of it before F0.
TEST(Schedules, SendsAndReceivesOfTwoStages) {
  const auto lists = instructions({PipelineSchedule::one_f_one_b, 2, 2, 1});
  EXPECT_EQ(
      text(lists[0]),
      "F0 send activation 0 to 1 receive gradient 0 from 1 F1 send activation 1 to 1 receive gradient 1 from 1 B0 "
      "B1 step");
  EXPECT_EQ(text(lists[1]),
            "receive activation 0 from 0 receive activation 1 from 0 F0 B0 send gradient 0 to 0 F1 B1 send gradient 1 "
            "to 0 step");
}

// Narayanan et al. 2021, figure 4, lower half: four devices, eight micro-batches, two chunks. Device 1 begins with the
// forwards of 1 2 3 4 in both chunks and of 5 6 in the first chunk, and ends with the backwards of the first chunk.
TEST(Interleaved, FollowsTheOrderOfThePaper) {
  const auto lists = instructions({PipelineSchedule::interleaved, 4, 8, 2});
  EXPECT_EQ(computations(lists[3]).substr(0, 39), "F0 F1 F2 F3 F0.1 B0.1 F1.1 B1.1 F2.1 B2");
  const std::string first = computations(lists[0]);
  EXPECT_EQ(first.substr(0, 48), "F0 F1 F2 F3 F0.1 F1.1 F2.1 F3.1 F4 F5 F6 B0.1 F7");
  EXPECT_EQ(first.substr(first.size() - 16), "B4 B5 B6 B7 step");
}

// Qi et al. 2024 (ZB-H1): the last of three stages defers two weight gradients, the first stage none.
TEST(ZeroBubbleH1, DefersAsManyWeightGradientsAsThereAreStagesBefore) {
  const auto lists = instructions({PipelineSchedule::zb_h1, 3, 4, 1});
  EXPECT_EQ(computations(lists[0]), "F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3 step");
  EXPECT_EQ(computations(lists[1]), "F0 F1 I0 F2 I1 W0 F3 I2 W1 I3 W2 W3 step");
  EXPECT_EQ(computations(lists[2]), "F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3 step");
}

// ZB-H1 needs the memory of 1F1B: no stage has more activations alive than the first stage of 1F1B.
TEST(ZeroBubbleH1, KeepsNoMoreAliveThanOneForwardOneBackward) {
  for (int64_t stages = 1; stages <= 8; ++stages) {
    const int64_t first = live_bound({PipelineSchedule::one_f_one_b, stages, 16, 1}, 0).together;
    for (int64_t stage = 0; stage < stages; ++stage) {
      const Live bound = live_bound({PipelineSchedule::zb_h1, stages, 16, 1}, stage);
      EXPECT_EQ(bound.together, first);
      EXPECT_EQ(bound.activations, live_bound({PipelineSchedule::one_f_one_b, stages, 16, 1}, stage).activations);
    }
  }
}

// 2 * stages chunks of half a stage each are as much as the first stage of 1F1B keeps alive.
TEST(ZeroBubbleV, KeepsAsManyWholeMicroBatchesAliveAsThereAreStages) {
  for (int64_t stages = 1; stages <= 8; ++stages) {
    for (int64_t stage = 0; stage < stages; ++stage) {
      EXPECT_EQ(live_bound({PipelineSchedule::zb_v, stages, 16, 2}, stage).together, 2 * stages);
    }
  }
}

TEST(Placement, LoopsOrGoesDownAndUp) {
  const Placement loops{3, 2}, vee{3, 2, Placement::Shape::vee};
  const std::vector<int64_t> loop_stages = {0, 1, 2, 0, 1, 2}, vee_stages = {0, 1, 2, 2, 1, 0};
  for (int64_t number = 0; number < 6; ++number) {
    const auto index = static_cast<size_t>(number);
    EXPECT_EQ(loops.stage_of(number), loop_stages[index]);
    EXPECT_EQ(vee.stage_of(number), vee_stages[index]);
    for (const Placement& placement : {loops, vee}) {
      EXPECT_EQ(placement.virtual_stage(placement.stage_of(number), placement.chunk_of(number)), number);
    }
  }
}

// The last stage has both virtual stages at the turn of the V, so nothing is sent there.
TEST(Placement, VeeSendsNothingAtItsTurn) {
  const auto lists = instructions({PipelineSchedule::zb_v, 3, 2, 2});
  for (const Instruction& one : lists[2]) {
    if (is_send(one.kind) || is_receive(one.kind)) {
      EXPECT_EQ(one.peer, 1) << to_string(one);
    }
  }
}

TEST(Refusal, NamesAValidAlternative) {
  EXPECT_EQ(refusal({PipelineSchedule::one_f_one_b, 4, 8, 2}),
            "1f1b has one chunk a stage, not 2; use 1, or interleaved or zb-v");
  EXPECT_EQ(refusal({PipelineSchedule::gpipe, 4, 8, 3}), "gpipe has one chunk a stage, not 3; use 1, or interleaved");
  EXPECT_EQ(refusal({PipelineSchedule::zb_v, 4, 8, 1}), "zb-v has two chunks a stage, not 1; use 2, or zb-h1");
  EXPECT_EQ(refusal({PipelineSchedule::zb_v, 4, 8, 3}), "zb-v has two chunks a stage, not 3; use 2, or interleaved");
  EXPECT_EQ(refusal({PipelineSchedule::gpipe, 0, 8, 1}), "0 stages; use 1 or more");
  EXPECT_EQ(refusal({PipelineSchedule::gpipe, 1, 0, 1}), "0 micro-batches; use 1 or more");
  EXPECT_EQ(refusal({PipelineSchedule::interleaved, 1, 1, 0}), "0 chunks a stage; use 1 or more");
  EXPECT_EQ(refusal({PipelineSchedule::interleaved, 3, 7, 5}), "");
}

// The bound is at most 3 activations and 4 inputs of weights, together at most 5. With 10 and 4 bytes each: 3 * 10 + 2
// * 4; with 1 and 4 bytes each, as with recompute: 4 * 4 + 1.
TEST(Live, TakesTheMostBytesThatItAllows) {
  const Live live{3, 4, 5};
  EXPECT_EQ(live.bytes(10, 4), 38);
  EXPECT_EQ(live.bytes(1, 4), 17);
  EXPECT_EQ((Live{3, 0, 3}).bytes(10, 4), 30);
  EXPECT_EQ((Live{3, 0, 3}).bytes(1, 4), 3);
}

}  // namespace
}  // namespace terrace::schedule
