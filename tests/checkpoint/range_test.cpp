// Ranges of elements as regions: worked out by hand, and counted element by element for every range of small shapes.
#include "terrace/checkpoint/range.h"

#include <gtest/gtest.h>

#include <numeric>

namespace terrace::checkpoint {
namespace {

// The row-major numbers of a slice's elements, in order.
std::vector<int64_t> elements_of(const SliceBounds& slice, const std::vector<int64_t>& shape) {
  std::vector<int64_t> elements = {0};
  for (size_t d = 0; d < shape.size(); ++d) {
    std::vector<int64_t> inner;
    for (const int64_t element : elements) {
      for (int64_t i = 0; i < slice.shape[d]; ++i) inner.push_back(element * shape[d] + slice.offset[d] + i);
    }
    elements = inner;
  }
  return elements;
}

TEST(Range, SplitsIntoRestOfRowWholeRowsAndStartOfRow) {
  EXPECT_EQ(slices_in({5, 17, {6, 4}}),
            (std::vector<SliceBounds>{{{1, 1}, {1, 3}}, {{2, 0}, {2, 4}}, {{4, 0}, {1, 1}}}));
  EXPECT_EQ(slices_in({5, 7, {6, 4}}), (std::vector<SliceBounds>{{{1, 1}, {1, 2}}}));
  EXPECT_EQ(slices_in({4, 12, {6, 4}}), (std::vector<SliceBounds>{{{1, 0}, {2, 4}}}));
  // In three dimensions the first and the last matrix are split in the same way.
  EXPECT_EQ(slices_in({1, 23, {2, 3, 4}}),
            (std::vector<SliceBounds>{
                {{0, 0, 1}, {1, 1, 3}}, {{0, 1, 0}, {1, 2, 4}}, {{1, 0, 0}, {1, 2, 4}}, {{1, 2, 0}, {1, 1, 3}}}));
}

TEST(Range, WholeShapeIsOneBox) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{}, {1}, {7}, {3, 5}, {1, 1, 4}, {2, 3, 1, 5}}) {
    const SliceBounds whole{std::vector<int64_t>(shape.size(), 0), shape};
    EXPECT_EQ(slices_in({0, whole.numel(), shape}), std::vector<SliceBounds>{whole});
    EXPECT_TRUE(slices_in({0, 0, shape}).empty());
  }
  EXPECT_TRUE(slices_in({0, 0, {0, 3}}).empty());
}

TEST(Range, EveryElementIsInOneBoxAndInOrder) {
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{1}, {11}, {5, 3}, {1, 6}, {6, 1}, {3, 4, 2}, {2, 1, 5}, {2, 3, 2, 2}}) {
    const int64_t all = SliceBounds{{}, shape}.numel();
    for (int64_t begin = 0; begin <= all; ++begin) {
      for (int64_t end = begin; end <= all; ++end) {
        const std::vector<SliceBounds> regions = slices_in({begin, end, shape});
        std::vector<int64_t> found, expected(static_cast<size_t>(end - begin));
        for (const SliceBounds& slice : regions) {
          for (const int64_t element : elements_of(slice, shape)) found.push_back(element);
        }
        std::iota(expected.begin(), expected.end(), begin);
        ASSERT_EQ(found, expected) << begin << " to " << end;
        ASSERT_LE(regions.size(), 2 * shape.size() - 1) << begin << " to " << end;
      }
    }
  }
}

TEST(RangeDeathTest, RangeOutsideItsShape) {
  EXPECT_DEATH(slices_in({3, 7, {2, 3}}), "elements 3 to 7 of a slice of shape \\[2, 3\\]");
  EXPECT_DEATH(slices_in({3, 2, {2, 3}}), "elements 3 to 2");
}

}  // namespace
}  // namespace terrace::checkpoint
