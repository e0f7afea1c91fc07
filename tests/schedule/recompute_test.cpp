// Compares the segments that are recomputed with those worked out by hand.
#include "terrace/schedule/recompute.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "terrace/base/error.h"

namespace terrace::schedule {
namespace {

using config::Recompute;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using Word = config::RecomputeLayers::Word;

constexpr Recompute none = Recompute::none, full = Recompute::full;

// An embedding, `layers` layers of one unit and a head.
UnitTable table_of(int64_t layers) {
  UnitTable table = {{.name = "embedding"}};
  for (int64_t layer = 0; layer < layers; ++layer)
    table.push_back({.name = "layer", .layer = layer, .forward_flops = 1});
  table.push_back({.name = "head"});
  return table;
}

config::Config config_with(Recompute recompute, config::RecomputeLayers layers) {
  config::Config config;
  config.train.recompute = recompute;
  config.layout.recompute_layers = std::move(layers);
  return config;
}

TEST(SegmentRecompute, IsOfAllLayersUnlessNumbersAreGiven) {
  const Partition whole = partition(table_of(3), 1, {});
  EXPECT_THAT(segment_recompute(whole, {}, config_with(none, {})), ElementsAre(none, none, none, none, none));
  EXPECT_THAT(segment_recompute(whole, {}, config_with(full, {})), ElementsAre(none, full, full, full, none));
  EXPECT_THAT(segment_recompute(whole, {}, config_with(full, {.word = Word::fit})),
              ElementsAre(none, full, full, full, none));
  EXPECT_THAT(segment_recompute(whole, {}, config_with(none, {.word = Word::numbers, .numbers = {2}})),
              ElementsAre(none, none, none, none, none));
}

TEST(SegmentRecompute, TakesTheFirstLayersOfEachStage) {
  const Partition halves = partition(table_of(5), 2, {2, 3});
  const Placement placement{.stages = 2};
  EXPECT_THAT(segment_recompute(halves, placement, config_with(full, {.word = Word::numbers, .numbers = {1}})),
              ElementsAre(none, full, none, full, none, none, none));
  EXPECT_THAT(segment_recompute(halves, placement, config_with(Recompute::selective, {Word::numbers, {2, 0}})),
              ElementsAre(none, Recompute::selective, Recompute::selective, none, none, none, none));
  // One number is that of all stages, and the first stage has two layers.
  EXPECT_THAT(segment_recompute(halves, placement, config_with(full, {Word::numbers, {3}})),
              ElementsAre(none, full, full, full, full, full, none));
}

// Stage 0 of a V has the virtual stages 0 and 3, stage 1 has 1 and 2.
TEST(SegmentRecompute, TakesTheChunkThatKeepsMicroBatchesLongest) {
  const Partition quarters = partition(table_of(8), 4, {2, 2, 2, 2});
  const Placement vee{.stages = 2, .chunks = 2, .shape = Placement::Shape::vee};
  EXPECT_THAT(recomputable_segments(quarters, vee, 0), ElementsAre(1, 2, 7, 8));
  EXPECT_THAT(recomputable_segments(quarters, vee, 1), ElementsAre(3, 4, 5, 6));
  const Placement loops{.stages = 2, .chunks = 2};
  EXPECT_THAT(recomputable_segments(quarters, loops, 0), ElementsAre(1, 2, 5, 6));
  EXPECT_THAT(segment_recompute(quarters, loops, config_with(full, {Word::numbers, {3, 1}})),
              ElementsAre(none, full, full, full, none, full, none, none, none, none));
}

TEST(SegmentRecompute, RefusesNumbersThatFitNoStages) {
  const Partition halves = partition(table_of(5), 2, {2, 3});
  const Placement placement{.stages = 2};
  EXPECT_THAT(
      [&] {
        segment_recompute(halves, placement, config_with(full, {Word::numbers, {3, 3}}));
      },
      ThrowsMessage<UserError>(HasSubstr("has 3 for stage 0, which has 2 layers")));
  EXPECT_THAT(
      [&] {
        segment_recompute(halves, placement, config_with(full, {Word::numbers, {1, 1, 1}}));
      },
      ThrowsMessage<UserError>(HasSubstr("has 3 numbers for 2 stages")));
}

}  // namespace
}  // namespace terrace::schedule
