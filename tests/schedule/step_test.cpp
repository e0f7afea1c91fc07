// Compares short lists with lists worked out by hand; validates the lists of every schedule, group size and prefetch.
#include "terrace/schedule/step/step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "terrace/schedule/pipeline/pipeline.h"
#include "terrace/schedule/step/validate_step.h"

namespace terrace::schedule {
namespace {

using config::PipelineSchedule;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

std::vector<std::string> text(const StepInstructions& list) {
  std::vector<std::string> lines;
  for (const StepInstruction& one : list) lines.push_back(to_string(one));
  return lines;
}

// A model of `segments` segments on one stage; if `tied`, the last segment also reads the weights of the first one.
StageSegments on_one_stage(int64_t segments, bool tied) {
  StageSegments all{.chunks = {{}}, .last = segments - 1, .reads = {}, .held = {}, .copies = {}};
  for (int64_t segment = 0; segment < segments; ++segment) {
    all.chunks[0].push_back(segment);
    all.held.push_back(segment);
    all.reads.push_back({segment});
  }
  if (tied) all.reads.back() = {0, segments - 1};
  return all;
}

Instructions one_stage_list(int64_t micro_batches) {
  return instructions({PipelineSchedule::one_f_one_b, 1, micro_batches, 1}).at(0);
}

TEST(TrainingStep, OneRankOnlyComputes) {
  const auto list = training_step(one_stage_list(2), 2, on_one_stage(3, true), movements_of({}, false, 1));
  EXPECT_THAT(text(list), ElementsAre("F0 segment 0", "F0 segment 1", "L0 segment 2", "B0 segment 1", "B0 segment 0",
                                      "F1 segment 0", "F1 segment 1", "L1 segment 2", "B1 segment 1", "B1 segment 0",
                                      "finish gradients", "norm", "update"));
}

TEST(TrainingStep, GathersOneSegmentAheadAndReducesBehindTheNextBackward) {
  const Movements zero3 = movements_of({.weights = 2, .gradients = 2, .optimizer = 2, .ranks = 2}, false, 1);
  const auto list = training_step(one_stage_list(1), 1, on_one_stage(3, false), zero3);
  const std::vector<std::string> expected = {"begin gather weights of segment 0",
                                             "begin gather weights of segment 1",
                                             "end gather weights of segment 0",
                                             "F0 segment 0",
                                             "release weights of segment 0",
                                             "begin gather weights of segment 2",
                                             "end gather weights of segment 1",
                                             "F0 segment 1",
                                             "release weights of segment 1",
                                             "begin gather weights of segment 1",
                                             "end gather weights of segment 2",
                                             "allocate gradient of segment 2",
                                             "L0 segment 2",
                                             "release weights of segment 2",
                                             "begin reduce gradients of segment 2",
                                             "begin gather weights of segment 0",
                                             "end gather weights of segment 1",
                                             "allocate gradient of segment 1",
                                             "B0 segment 1",
                                             "release weights of segment 1",
                                             "end reduce gradients of segment 2",
                                             "begin reduce gradients of segment 1",
                                             "end gather weights of segment 0",
                                             "allocate gradient of segment 0",
                                             "B0 segment 0",
                                             "release weights of segment 0",
                                             "end reduce gradients of segment 1",
                                             "begin reduce gradients of segment 0",
                                             "end reduce gradients of segment 0",
                                             "finish gradients",
                                             "norm",
                                             "update"};
  EXPECT_THAT(text(list), ElementsAreArray(expected));
}

TEST(TrainingStep, Zero1ReducesOnceAfterTheLastMicroBatchAndPublishes) {
  const Movements zero1 = movements_of({.weights = 1, .gradients = 1, .optimizer = 2, .ranks = 2}, false, 1);
  const auto list = training_step(one_stage_list(2), 2, on_one_stage(2, false), zero1);
  EXPECT_THAT(text(list),
              ElementsAre("end gather updated weights of segment 0", "F0 segment 0",
                          "end gather updated weights of segment 1", "L0 segment 1", "B0 segment 0", "F1 segment 0",
                          "L1 segment 1", "begin reduce gradients across of segment 1", "B1 segment 0",
                          "end reduce gradients across of segment 1", "begin reduce gradients across of segment 0",
                          "end reduce gradients across of segment 0", "finish gradients", "norm", "update",
                          "begin gather updated weights of segment 0", "begin gather updated weights of segment 1"));
}

// Gathers go between the nodes ahead of the use and inside the nodes at the use; a reduction goes inside the nodes
// behind one backward and between the nodes behind the next.
TEST(TrainingStep, RailsMoveInTwoHops) {
  const Movements rails =
      movements_of({.weights = 4, .gradients = 4, .optimizer = 4, .ranks = 4, .rails_node = 2}, false, 1);
  const auto list = training_step(one_stage_list(1), 1, on_one_stage(3, false), rails);
  const std::vector<std::string> expected = {
      "begin gather weights of segment 0 between nodes",
      "begin gather weights of segment 1 between nodes",
      "begin gather weights of segment 2 between nodes",
      "end gather weights of segment 0 between nodes",
      "begin gather weights of segment 0 inside nodes",
      "end gather weights of segment 0 inside nodes",
      "F0 segment 0",
      "release weights of segment 0",
      "end gather weights of segment 1 between nodes",
      "begin gather weights of segment 1 inside nodes",
      "end gather weights of segment 2 between nodes",
      "begin gather weights of segment 2 inside nodes",
      "end gather weights of segment 1 inside nodes",
      "F0 segment 1",
  };
  const std::vector<std::string> lines = text(list);
  EXPECT_THAT(std::vector<std::string>(lines.begin(), lines.begin() + 14), ElementsAreArray(expected));
  const auto place = [&](const std::string& line) { return std::ranges::find(lines, line) - lines.begin(); };
  const auto first_end = place("end reduce gradients of segment 2 inside nodes");
  EXPECT_LT(place("B0 segment 1"), first_end);
  EXPECT_EQ(place("begin reduce gradients of segment 2 between nodes"), first_end + 1);
  EXPECT_LT(first_end, place("B0 segment 0"));
  EXPECT_LT(place("B0 segment 0"), place("end reduce gradients of segment 2 between nodes"));
  EXPECT_EQ(std::ranges::count(lines, "end reduce gradients of segment 0 between nodes"), 1);
}

TEST(ValidateStep, NamesAMissingOrAnEarlySecondHop) {
  const StageSegments segments = on_one_stage(3, false);
  const Movements rails =
      movements_of({.weights = 4, .gradients = 4, .optimizer = 8, .ranks = 8, .rails_node = 2}, false, 1);
  const Instructions stage = one_stage_list(1);
  const auto without = [&](const std::string& line) {
    StepInstructions broken = training_step(stage, 1, segments, rails);
    std::erase_if(broken, [&](const StepInstruction& one) { return to_string(one) == line; });
    return validate_step(broken, stage, 1, segments, rails);
  };
  EXPECT_EQ(without("nothing"), "");
  EXPECT_THAT(without("end gather weights of segment 1 between nodes"),
              testing::HasSubstr("its first hop has not ended"));
  EXPECT_THAT(without("begin gather weights of segment 1 inside nodes"),
              testing::HasSubstr("its second hop has not begun"));
  EXPECT_THAT(without("begin reduce gradients of segment 0 between nodes"),
              testing::HasSubstr("this movement has not begun"));
  EXPECT_THAT(without("end reduce gradients of segment 0 inside nodes"),
              testing::HasSubstr("its first hop has not ended"));
}

// The second of two stages has a copy of segment 0, which its last segment reads.
TEST(TrainingStep, LaterStageReducesItsCopyBehindTheLoss) {
  StageSegments second{.chunks = {{1, 2}}, .last = 2, .reads = {{}, {1}, {0, 2}}, .held = {0, 1, 2}, .copies = {0}};
  const Movements ddp = movements_of({.ranks = 2}, false, 1);
  const auto lists = instructions({PipelineSchedule::one_f_one_b, 2, 1, 1});
  EXPECT_THAT(
      text(training_step(lists.at(1), 1, second, ddp)),
      ElementsAre("receive activation 0 from 0", "F0 segment 1", "L0 segment 2",
                  "begin all-reduce gradients of segment 2", "begin all-reduce gradients of segment 0", "B0 segment 1",
                  "end all-reduce gradients of segment 2", "end all-reduce gradients of segment 0",
                  "begin all-reduce gradients of segment 1", "send gradient 0 to 0",
                  "end all-reduce gradients of segment 1", "finish gradients", "norm", "update"));
}

TEST(Evaluation, ComputesForwardsAndTheLossWithoutGradients) {
  const Movements zero3 = movements_of({.weights = 2, .gradients = 2, .optimizer = 2, .ranks = 2}, false, 0);
  EXPECT_THAT(text(evaluation(on_one_stage(2, false), {{}}, zero3)),
              ElementsAre("begin gather weights of segment 0", "end gather weights of segment 0", "F0 segment 0",
                          "release weights of segment 0", "begin gather weights of segment 1",
                          "end gather weights of segment 1", "L0 segment 1", "release weights of segment 1"));
  const StageSegments middle{.chunks = {{1}}, .last = 2, .reads = {{}, {1}, {}}, .held = {1}, .copies = {}};
  EXPECT_THAT(text(evaluation(middle, {{.before = 0, .after = 2}}, {})),
              ElementsAre("receive activation 0 from 0", "F0 segment 1", "send activation 0 to 2"));
}

TEST(StepMemory, GatheredAheadIsTheSumOfNeighbours) {
  const mesh::ShardSizes all_of_two{.weights = 2, .gradients = 2, .optimizer = 2, .ranks = 2};
  const std::vector<int64_t> elements = {10, 1, 2, 3, 20};
  for (const int64_t prefetch : {0, 1, 2, 9}) {
    const auto list =
        training_step(one_stage_list(3), 3, on_one_stage(5, false), movements_of(all_of_two, false, prefetch));
    // A segment and the following ones, in forward or backward: 20; 3 + 20; 2 + 3 + 20; all segments.
    const int64_t gathered = prefetch == 0 ? 20 : prefetch == 1 ? 23 : prefetch == 2 ? 25 : 36;
    EXPECT_EQ(peak_memory(list, elements).gathered_weights, gathered) << prefetch;
    // The gradients of a segment and of the previous one in backward order, whose reduction ends after this segment's
    // backward: at most those of the last segment (20) and of segment 0 of the previous micro-batch (10).
    EXPECT_EQ(peak_memory(list, elements).whole_gradients, 20 + 10) << prefetch;
  }
}

// All stages of a model of `layers` layers between embedding and head, with at least one segment for each virtual
// stage.
std::vector<StageSegments> stages_of(const Pipeline& pipeline, int64_t layers, bool tied) {
  const Placement placed = placement(pipeline);
  const int64_t last = layers + 1, count = placed.virtual_stages();
  std::vector<StageSegments> stages;
  for (int64_t stage = 0; stage < pipeline.stages; ++stage) {
    StageSegments segments{.chunks = {}, .last = last, .reads = {}, .held = {}, .copies = {}};
    segments.reads.resize(static_cast<size_t>(last + 1));
    for (int64_t chunk = 0; chunk < pipeline.chunks; ++chunk) {
      const int64_t own = placed.virtual_stage(stage, chunk);
      std::vector<int64_t>& list = segments.chunks.emplace_back();
      for (int64_t segment = own * (last + 1) / count; segment < (own + 1) * (last + 1) / count; ++segment) {
        list.push_back(segment);
        segments.held.push_back(segment);
        segments.reads[static_cast<size_t>(segment)] = {segment};
      }
    }
    const bool has_last = placed.stage_of(count - 1) == stage;
    if (tied && has_last) segments.reads.back() = {0, last};
    if (tied && has_last && placed.stage_of(0) != stage) {
      segments.held.push_back(0);
      segments.copies.push_back(0);
    }
    std::ranges::sort(segments.held);
    stages.push_back(std::move(segments));
  }
  return stages;
}

std::vector<mesh::ShardSizes> all_sizes() {
  std::vector<mesh::ShardSizes> sizes;
  for (const int64_t ranks : {1, 2, 8}) {
    for (int64_t o = 1; o <= ranks; o *= 2) {
      for (int64_t g = 1; g <= o; g *= 2) {
        for (int64_t w = 1; w <= g; w *= 2) {
          sizes.push_back({.weights = w, .gradients = g, .optimizer = o, .ranks = ranks});
          if (ranks == 8) sizes.push_back({.weights = w, .gradients = g, .optimizer = o, .ranks = 8, .rails_node = 4});
        }
      }
    }
  }
  return sizes;
}

struct Shape {
  PipelineSchedule schedule;
  int64_t chunks;
};

TEST(ValidateStep, HoldsForEveryScheduleGroupsAndPrefetch) {
  int64_t checked = 0;
  for (const Shape& shape :
       {Shape{PipelineSchedule::gpipe, 1}, Shape{PipelineSchedule::one_f_one_b, 1},
        Shape{PipelineSchedule::interleaved, 3}, Shape{PipelineSchedule::zb_h1, 1}, Shape{PipelineSchedule::zb_v, 2}}) {
    for (const int64_t stages : {1, 2, 3}) {
      for (const int64_t micro_batches : {1, 2, 5}) {
        const Pipeline pipeline{shape.schedule, stages, micro_batches, shape.chunks};
        const auto lists = instructions(pipeline);
        for (const bool tied : {false, true}) {
          const auto segments = stages_of(pipeline, 11, tied);
          for (const mesh::ShardSizes& sizes : all_sizes()) {
            for (const bool deterministic : {false, true}) {
              for (const int64_t prefetch : {0, 1, 4}) {
                const Movements movements = movements_of(sizes, deterministic, prefetch);
                for (size_t stage = 0; stage < lists.size(); ++stage) {
                  const auto list = training_step(lists[stage], micro_batches, segments[stage], movements);
                  ASSERT_EQ(validate_step(list, lists[stage], micro_batches, segments[stage], movements), "");
                  ++checked;
                }
              }
            }
          }
        }
      }
    }
  }
  EXPECT_GT(checked, 10000);
}

// A valid list, from which each test removes or moves an instruction.
struct Broken : testing::Test {
  std::string without(const std::string& line) const {
    StepInstructions broken = list;
    std::erase_if(broken, [&](const StepInstruction& one) { return to_string(one) == line; });
    return validate_step(broken, stage, 1, segments, movements);
  }

  std::string exchanged(const std::string& first, const std::string& second) const {
    StepInstructions broken = list;
    const auto found = [&](const std::string& line) {
      return std::ranges::find(broken, line, [](const StepInstruction& one) { return to_string(one); });
    };
    std::swap(*found(first), *found(second));
    return validate_step(broken, stage, 1, segments, movements);
  }

  Instructions stage = one_stage_list(1);
  StageSegments segments = on_one_stage(3, false);
  Movements movements = movements_of({.weights = 2, .gradients = 2, .optimizer = 4, .ranks = 4}, false, 0);
  StepInstructions list = training_step(stage, 1, segments, movements);
};

TEST_F(Broken, EachMissingInstructionIsNamed) {
  EXPECT_EQ(without("nothing"), "");
  EXPECT_THAT(without("begin gather weights of segment 0"), testing::HasSubstr("its weights are not gathered"));
  EXPECT_THAT(without("end gather weights of segment 0"), testing::HasSubstr("weights of segment 0 have not arrived"));
  EXPECT_THAT(without("release weights of segment 0"), testing::HasSubstr("its weights are gathered already"));
  EXPECT_THAT(without("end gather updated weights of segment 1"),
              testing::HasSubstr("its updated weights have not been waited for"));
  EXPECT_THAT(without("allocate gradient of segment 1"), testing::HasSubstr("the gradient of segment 1 has no memory"));
  EXPECT_THAT(without("begin reduce gradients of segment 2"), testing::HasSubstr("this movement has not begun"));
  EXPECT_THAT(without("end reduce gradients of segment 2"),
              testing::HasSubstr("another movement of its gradient has not ended"));
  EXPECT_THAT(without("end reduce gradients across of segment 0"),
              testing::HasSubstr("the gradient of segment 0 is still moving"));
  EXPECT_THAT(without("F0 segment 1"), testing::HasSubstr("F0 segment 1 was expected"));
  EXPECT_THAT(without("norm"), testing::HasSubstr("norm was expected"));
  EXPECT_THAT(without("update"), testing::HasSubstr("the update has not been done"));
  EXPECT_EQ(without("begin gather updated weights of segment 1"), "not all updated weights are published");
}

TEST_F(Broken, AWrongOrderIsNamed) {
  EXPECT_THAT(exchanged("F0 segment 0", "F0 segment 1"), testing::HasSubstr("F0 segment 0 was expected"));
  EXPECT_THAT(exchanged("B0 segment 0", "begin reduce gradients of segment 0"),
              testing::HasSubstr("its gradient is not complete"));
  EXPECT_THAT(exchanged("norm", "begin gather updated weights of segment 0"),
              testing::HasSubstr("the update has not been done"));
}

}  // namespace
}  // namespace terrace::schedule
