// Row ranges and the ranges of elements that they consist of, worked out by hand.
#include "terrace/mesh/param_mark.h"

#include <gtest/gtest.h>

#include <numeric>

namespace terrace {
namespace {

ParamMark cut(ParamMark mark, int64_t member, int64_t ranks) {
  mark.row_ranges = row_ranges_of(mark, member, ranks);
  return mark;
}

TEST(Slabs, EqualPiecesOfIndependentRows) {
  const ParamMark mark = ParamMark::sharded({12, 5}, 0, "tensor");
  EXPECT_EQ(row_ranges_of(mark, 0, 1), (std::vector<RowRange>{{0, 12}}));
  EXPECT_EQ(row_ranges_of(mark, 2, 3), (std::vector<RowRange>{{8, 4}}));
  EXPECT_EQ(local_shape(cut(mark, 2, 3)), (std::vector<int64_t>{4, 5}));
}

// Two groups of six rows; all ranks of a group hold its last two rows.
TEST(Slabs, GroupsShareTheRowsAtTheirEnd) {
  ParamMark mark = ParamMark::sharded({12, 5}, 0, "tensor");
  mark.groups = 2;
  mark.shared = 2;
  EXPECT_EQ(row_ranges_of(mark, 1, 2), (std::vector<RowRange>{{6, 6}}));
  EXPECT_EQ(row_ranges_of(mark, 2, 4), (std::vector<RowRange>{{6, 2}, {10, 2, true}}));
  EXPECT_EQ(row_ranges_of(mark, 3, 4), (std::vector<RowRange>{{8, 2}, {10, 2, false}}));
  EXPECT_EQ(local_shape(cut(mark, 3, 4)), (std::vector<int64_t>{4, 5}));
}

TEST(Runs, ReplicatedParameterIsOneRun) {
  const ParamMark mark = ParamMark::replicated({3, 4});
  EXPECT_EQ(mapped_ranges(mark, 2, 9), (std::vector<MappedRange>{{2, 2, 7}}));
  EXPECT_TRUE(mapped_ranges(mark, 4, 4).empty());
}

TEST(Runs, EachRowOfCutColumnsIsOneRun) {
  const ParamMark mark = cut(ParamMark::sharded({4, 6}, 1, "tensor"), 1, 3);  // columns 2 and 3
  EXPECT_EQ(mapped_ranges(mark, 1, 5), (std::vector<MappedRange>{{1, 3, 1}, {2, 8, 2}, {4, 14, 1}}));
}

TEST(Runs, SlabsMarkTheCountedRuns) {
  ParamMark mark = ParamMark::sharded({12, 2}, 0, "tensor");
  mark.groups = 2;
  mark.shared = 2;
  mark = cut(mark, 3, 4);  // rows 8, 9 and, not counted, 10, 11
  EXPECT_EQ(mapped_ranges(mark, 1, 8), (std::vector<MappedRange>{{1, 17, 3, true}, {4, 20, 4, false}}));
  EXPECT_EQ(counted_ranges(mark, 1, 8), (std::vector<LocalRange>{{1, 4}}));
  EXPECT_TRUE(counted_ranges(mark, 4, 8).empty());
}

TEST(CountedRanges, AdjacentRunsBecomeOneRange) {
  const ParamMark mark = cut(ParamMark::sharded({4, 6}, 1, "tensor"), 1, 3);
  EXPECT_EQ(counted_ranges(mark, 1, 5), (std::vector<LocalRange>{{1, 5}}));
}

// Exactly one rank counts each element of the whole parameter.
TEST(Runs, AllRanksCountEachElementOnce) {
  ParamMark grouped = ParamMark::sharded({24, 3}, 0, "tensor");
  grouped.groups = 2;
  grouped.shared = 4;
  for (const ParamMark& mark :
       {ParamMark::sharded({8, 3}, 0, "tensor"), ParamMark::sharded({3, 5, 8}, 2, "tensor"), grouped}) {
    const int64_t elements = std::accumulate(mark.global_shape.begin(), mark.global_shape.end(), int64_t{1},
                                             [](int64_t a, int64_t b) { return a * b; });
    for (const int64_t ranks : {1, 2, 4}) {
      std::vector<int> seen(static_cast<size_t>(elements), 0);
      for (int64_t member = 0; member < ranks; ++member) {
        const ParamMark own = cut(mark, member, ranks);
        const auto shape = local_shape(own);
        int64_t held = 1;
        for (const int64_t extent : shape) held *= extent;
        for (const MappedRange& run : mapped_ranges(own, 0, held)) {
          for (int64_t i = 0; run.counted && i < run.size; ++i) ++seen[static_cast<size_t>(run.global + i)];
        }
      }
      for (const int count : seen) EXPECT_EQ(count, 1);
    }
  }
}

}  // namespace
}  // namespace terrace
