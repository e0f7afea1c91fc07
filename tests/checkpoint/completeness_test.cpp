// Checks whether slices make up a whole tensor, against a count of every element.
#include "terrace/checkpoint/completeness.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "terrace/base/random.h"

namespace terrace::checkpoint {
namespace {

using testing::HasSubstr;

TensorRecord region(std::vector<int64_t> offset, std::vector<int64_t> shape, std::vector<int64_t> global) {
  return {"w", "w", "F32", std::move(global), std::move(offset), std::move(shape), ParamMark::Kind::replicated, 0, ""};
}

std::string problem_of(const std::vector<TensorRecord>& records) {
  TensorRecords slices;
  for (const TensorRecord& record : records) slices.push_back(&record);
  return completeness_problem(slices);
}

TEST(Cover, WholesInAnyOrder) {
  EXPECT_EQ(problem_of({region({}, {}, {})}), "");
  EXPECT_EQ(problem_of({region({0, 0}, {0, 3}, {0, 3})}), "");
  EXPECT_EQ(problem_of({region({4}, {3}, {7}), region({0}, {4}, {7}), region({2}, {0}, {7})}), "");
  EXPECT_EQ(
      problem_of({region({1, 0}, {2, 2}, {3, 5}), region({0, 0}, {1, 5}, {3, 5}), region({1, 2}, {2, 3}, {3, 5})}), "");
}

TEST(Cover, AHoleIsNamedByItsFirstElement) {
  EXPECT_THAT(
      problem_of({region({0, 0}, {2, 5}, {4, 5}), region({2, 0}, {1, 3}, {4, 5}), region({3, 0}, {1, 5}, {4, 5})}),
      HasSubstr("'w' of shape [4, 5] has 18 of its 20 elements; the first that is missing is at [2, 3]"));
  EXPECT_THAT(problem_of({region({1}, {6}, {7})}),
              HasSubstr("6 of its 7 elements; the first that is missing is at [0]"));
  EXPECT_THAT(problem_of({region({0, 0, 0}, {1, 3, 2}, {2, 3, 2})}), HasSubstr("missing is at [1, 0, 0]"));
  EXPECT_THAT(problem_of({region({0}, {0}, {2})}), HasSubstr("0 of its 2 elements"));
}

TEST(Cover, ElementsTwiceAreNamedThoughTheirNumberIsRight) {
  EXPECT_THAT(problem_of({region({0, 0}, {2, 5}, {4, 5}), region({1, 0}, {2, 5}, {4, 5})}),
              HasSubstr("has elements twice: [2, 5] at [0, 0] and [2, 5] at [1, 0]"));
  EXPECT_THAT(problem_of({region({}, {}, {}), region({}, {}, {})}), HasSubstr("has elements twice"));
}

TEST(Cover, OtherShapesAndTypesOfOneTensorAreNamed) {
  EXPECT_THAT(problem_of({region({0}, {2}, {4}), region({2}, {2}, {5})}), HasSubstr("F32 [4] on one rank and F32 [5]"));
  TensorRecord half = region({2}, {2}, {4});
  half.type = "F16";
  EXPECT_THAT(problem_of({region({0}, {2}, {4}), half}), HasSubstr("F32 [4] on one rank and F16 [4]"));
}

// Counts how often each element of the tensor occurs.
std::vector<int> counts(const std::vector<TensorRecord>& records) {
  std::vector<int> counts(5 * 4 * 3, 0);
  for (const TensorRecord& record : records) {
    for (int64_t i = 0; i < record.shape[0]; ++i) {
      for (int64_t j = 0; j < record.shape[1]; ++j) {
        for (int64_t k = 0; k < record.shape[2]; ++k) {
          ++counts[((record.offset[0] + i) * 4 + record.offset[1] + j) * 3 + record.offset[2] + k];
        }
      }
    }
  }
  return counts;
}

TEST(Cover, SharedElementsAreFoundAsByCounting) {
  int with = 0, without = 0;
  for (uint64_t round = 0; round < 2000; ++round) {
    std::vector<TensorRecord> records;
    for (uint64_t i = 0; i < 2 + round % 3; ++i) {
      const PhiloxBlock offset = philox_at({1, 1}, round, 2 * i), shape = philox_at({1, 1}, round, 2 * i + 1);
      TensorRecord record = region({offset[0] % 5, offset[1] % 4, offset[2] % 3}, {}, {5, 4, 3});
      for (size_t d = 0; d < 3; ++d) {
        record.shape.push_back(shape[d] % (record.global_shape[d] - record.offset[d] + 1));
      }
      records.push_back(record);
    }
    TensorRecords slices;
    for (const TensorRecord& record : records) slices.push_back(&record);
    const bool twice = std::ranges::any_of(counts(records), [](int count) { return count > 1; });
    (twice ? with : without) += 1;
    ASSERT_EQ(find_overlapping(slices).has_value(), twice) << round;
  }
  EXPECT_GT(with, 100);
  EXPECT_GT(without, 100);
}

}  // namespace
}  // namespace terrace::checkpoint
