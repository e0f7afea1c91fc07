// The times of input files are cut into parts for ranks, and what is done is left out.
#include "terrace/data/fields/preparation/fields_work.h"

#include <gtest/gtest.h>

#include <cmath>

namespace terrace::data {
namespace {

// Two files of 5 and 7 times; of the second, two times are left out. Pieces have one, three and one of their levels.
FieldsPlan plan_of_two_files() {
  FieldsPlan plan;
  plan.description.latitudes = {-45, 45};
  plan.description.longitudes = {0, 120, 240};
  plan.files = {"a.nc", "b.nc"};
  plan.axis_of_file = {0, 1};
  plan.axes = {{0, 1, 2, 3, 4}, {5, 6, -1, 7, -1, 8, 9}};
  plan.pieces = {{.file = 0, .outputs = {0}}, {.file = 0, .outputs = {1, -1, 2, 3}}, {.file = 1, .outputs = {0}}};
  return plan;
}

TEST(FieldsWork, AllTimesOfAllPieces) {
  const FieldsPlan plan = plan_of_two_files();
  EXPECT_EQ(all_work(plan), (FieldsWork{{0, 0, 5}, {1, 0, 5}, {2, 0, 7}}));
  // Six places: 5 times of one level, 5 of three, and 5 of one.
  EXPECT_EQ(values_of(plan, all_work(plan)), 6u * (5 + 15 + 5));
}

TEST(FieldsWork, RanksHaveEqualPartsThatAreAllOfIt) {
  const FieldsPlan plan = plan_of_two_files();
  for (int64_t ranks = 1; ranks <= 30; ++ranks) {
    FieldsWork together;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const FieldsWork own = work_of_rank(plan, all_work(plan), rank, ranks);
      const auto values = static_cast<double>(values_of(plan, own)), mean = 150.0 / static_cast<double>(ranks);
      EXPECT_LE(std::abs(values - mean), 18) << rank << " of " << ranks;  // one time of three levels
      for (const PieceTimes& times : own) {
        EXPECT_EQ(work_left(together, {times}), together) << "rank " << rank << " of " << ranks << " repeats times";
        add_work(together, times);
      }
    }
    EXPECT_EQ(together, all_work(plan)) << ranks;
  }
}

TEST(FieldsWork, WhatIsDoneIsLeftOut) {
  const FieldsPlan plan = plan_of_two_files();
  const FieldsWork done = {{0, 0, 5}, {1, 1, 2}, {1, 3, 4}, {2, 6, 7}};
  const FieldsWork left = work_left(all_work(plan), done);
  EXPECT_EQ(left, (FieldsWork{{1, 0, 1}, {1, 2, 3}, {1, 4, 5}, {2, 0, 6}}));
  FieldsWork both = left;
  for (const PieceTimes& times : done) add_work(both, times);
  EXPECT_EQ(both, all_work(plan));
  EXPECT_EQ(work_left(all_work(plan), all_work(plan)), FieldsWork{});
}

TEST(FieldsWork, AddedTimesAreJoined) {
  FieldsWork done;
  for (const PieceTimes& times : FieldsWork{{1, 4, 6}, {0, 2, 3}, {1, 0, 2}, {1, 2, 4}, {0, 0, 1}}) {
    add_work(done, times);
  }
  EXPECT_EQ(done, (FieldsWork{{0, 0, 1}, {0, 2, 3}, {1, 0, 6}}));
  add_work(done, {0, 0, 9});
  EXPECT_EQ(done, (FieldsWork{{0, 0, 9}, {1, 0, 6}}));
}

}  // namespace
}  // namespace terrace::data
