// Compares virtual stages and segments of models with a few units with those worked out by hand.
#include "terrace/schedule/partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "terrace/base/error.h"

namespace terrace::schedule {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// An embedding, `layers` layers of two units with the given FLOPs, and a head.
UnitTable table_of(int64_t layers, double attention, double ffn, double head, bool tied = false) {
  const auto row = [](const char* name, int64_t layer, double flops) {
    return UnitRow{.name = name,
                   .layer = layer,
                   .parameters = {{name, ParamMark::replicated({2})}},
                   .forward_flops = flops,
                   .kept_bytes = {100, 70, 10},
                   .deferred_bytes = 30};
  };
  UnitTable table = {row("embedding", -1, 0)};
  for (int64_t layer = 0; layer < layers; ++layer) {
    table.push_back(row("attention", layer, attention));
    table.push_back(row("ffn", layer, ffn));
  }
  table.push_back(row("head", -1, head));
  if (tied) table.back().reads_also = {0};
  return table;
}

std::vector<NumberRange> units_of(const Partition& partition) {
  std::vector<NumberRange> units;
  for (const Segment& segment : partition.segments) units.push_back(segment.units);
  return units;
}

TEST(Partition, OneVirtualStageHasASegmentForEachLayer) {
  const Partition whole = partition(table_of(2, 1, 2, 1), 1, {});
  EXPECT_THAT(units_of(whole), ElementsAre(NumberRange{0, 1}, NumberRange{1, 3}, NumberRange{3, 5}, NumberRange{5, 6}));
  EXPECT_THAT(whole.virtual_stages, ElementsAre(NumberRange{0, 4}));
  EXPECT_THAT(whole.segment(2).reads, ElementsAre(2));
}

// Four layers of 3 FLOPs and a head of 3: 7.5 for each of two stages.
TEST(Partition, CutsALayerInTwoWhereThatBalancesTheStages) {
  const Partition halves = partition(table_of(4, 1.5, 1.5, 3), 2, {});
  EXPECT_THAT(units_of(halves), ElementsAre(NumberRange{0, 1}, NumberRange{1, 3}, NumberRange{3, 5}, NumberRange{5, 6},
                                            NumberRange{6, 7}, NumberRange{7, 9}, NumberRange{9, 10}));
  EXPECT_THAT(halves.virtual_stages, ElementsAre(NumberRange{0, 4}, NumberRange{4, 7}));
  EXPECT_EQ(halves.segment(3).layer, halves.segment(4).layer);
}

TEST(Partition, GivesEachVirtualStageTheLayersThatAreNamed) {
  const UnitTable table = table_of(6, 1, 2, 1);
  EXPECT_THAT(partition(table, 2, {1, 5}).virtual_stages, ElementsAre(NumberRange{0, 2}, NumberRange{2, 8}));
  EXPECT_THAT(partition(table, 3, {0, 6, 0}).virtual_stages,
              ElementsAre(NumberRange{0, 1}, NumberRange{1, 7}, NumberRange{7, 8}));
  EXPECT_THAT(partition(table, 2, {6, 0}).virtual_stages, ElementsAre(NumberRange{0, 7}, NumberRange{7, 8}));
  EXPECT_THROW(partition(table, 2, {1, 4}), UserError);
  EXPECT_THROW(partition(table, 15, {}), UserError);
}

TEST(Partition, LeavesUnitsOfOneGraphTogether) {
  UnitTable table = table_of(2, 1, 1, 1);
  table[3].shares_graph = true;  // the second layer's first half
  const Partition whole = partition(table, 1, {});
  EXPECT_THAT(units_of(whole), ElementsAre(NumberRange{0, 1}, NumberRange{1, 5}, NumberRange{5, 6}));
  EXPECT_THAT(units_of(partition(table, 2, {})),
              ElementsAre(NumberRange{0, 1}, NumberRange{1, 4}, NumberRange{4, 5}, NumberRange{5, 6}));
  EXPECT_THAT(
      [&] {
        partition(table, 2, {1, 1});
      },
      ThrowsMessage<UserError>(HasSubstr("begins virtual stage 1 with attention")));
  EXPECT_NO_THROW(check_recompute(whole, config::Recompute::full));
  for (UnitRow& row : table) row.shares_graph = true;
  const Partition one = partition(table, 1, {});
  EXPECT_THAT(units_of(one), ElementsAre(NumberRange{0, 6}));
  EXPECT_NO_THROW(check_recompute(one, config::Recompute::selective));
  EXPECT_THAT([&] { check_recompute(one, config::Recompute::full); },
              ThrowsMessage<UserError>(HasSubstr("train.recompute = \"full\"")));
}

TEST(StageSegments, HoldACopyOfWhatTheirLastSegmentReads) {
  const Partition tied = partition(table_of(2, 1, 1, 2, true), 2, {});
  const StageSegments first = stage_segments(tied, {.stages = 2}, 0), last = stage_segments(tied, {.stages = 2}, 1);
  EXPECT_THAT(first.chunks, ElementsAre(ElementsAre(0, 1, 2)));
  EXPECT_THAT(first.held, ElementsAre(0, 1, 2));
  EXPECT_THAT(first.copies, ElementsAre());
  EXPECT_THAT(last.chunks, ElementsAre(ElementsAre(3, 4)));
  EXPECT_THAT(last.held, ElementsAre(0, 3, 4));
  EXPECT_THAT(last.copies, ElementsAre(0));
  EXPECT_THAT(last.reads[4], ElementsAre(0, 4));
  EXPECT_EQ(last.last, 4);
}

TEST(StageSegments, FirstStageOfAVeeHasTheFirstAndTheLastSegment) {
  const Partition partitioned = partition(table_of(2, 1, 1, 1, true), 4, {});
  const Placement vee{.stages = 2, .chunks = 2, .shape = Placement::Shape::vee};
  const StageSegments first = stage_segments(partitioned, vee, 0);
  EXPECT_EQ(first.chunks.front().front(), 0);
  EXPECT_EQ(first.chunks.back().back(), partitioned.last());
  EXPECT_THAT(first.copies, ElementsAre());  // the embedding that the head reads is on the same stage
}

TEST(SegmentBytes, RecomputedLayerKeepsItsInputAlone) {
  const UnitTable table = table_of(1, 1, 1, 1);
  const Partition whole = partition(table, 1, {});
  EXPECT_EQ(kept_bytes(table, whole.segment(1), config::Recompute::none), 200);
  EXPECT_EQ(kept_bytes(table, whole.segment(1), config::Recompute::selective), 140);
  EXPECT_EQ(kept_bytes(table, whole.segment(1), config::Recompute::full), 10);
  EXPECT_EQ(deferred_bytes(table, whole.segment(1)), 60);
}

TEST(UnitTable, CountsTheElementsThatOneRankHolds) {
  EXPECT_EQ(elements_on_rank(ParamMark::replicated({6, 4}), 2), 24);
  EXPECT_EQ(elements_on_rank(ParamMark::sharded({6, 4}, 0, "tensor"), 2), 12);
  EXPECT_EQ(elements_on_rank(ParamMark::sharded({6, 4}, 1, "tensor"), 4), 6);
  // Two groups of a query row and a shared row each, over four ranks: every rank has half of the queries' rows.
  ParamMark joint = ParamMark::sharded({8, 3}, 0, "tensor");
  joint.groups = 2;
  joint.shared = 2;
  EXPECT_EQ(elements_on_rank(joint, 4), (1 + 2) * 3);
  EXPECT_EQ(elements(table_of(2, 1, 1, 1)), 12);
}

}  // namespace
}  // namespace terrace::schedule
