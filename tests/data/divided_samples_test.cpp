// Tests the division of samples into micro-batches: small ones worked out by hand, and of drawn ones what must hold for
// every division.
#include "terrace/data/divided_samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/base/random.h"

namespace terrace::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Batch = std::vector<int64_t>;
using Batches = std::vector<Batch>;

SizesOfSamples drawn_sizes(uint32_t seed, int64_t samples) {
  SizesOfSamples sizes = {{"atoms", {}}, {"edges", {}}};
  for (int64_t i = 0; i < samples; ++i) {
    const PhiloxBlock draw = philox_at({seed, 1}, static_cast<uint64_t>(i), 0);
    sizes["atoms"].push_back(draw[0] % 41);
    sizes["edges"].push_back(sizes["atoms"].back() * (draw[1] % 9));
  }
  return sizes;
}

TEST(DividedSamples, EverySampleOnceInBudgetWithEqualMicroBatchCounts) {
  const Sizes budget = {{"atoms", 64}, {"edges", 330}};
  for (const int64_t samples : {0, 1, 2, 7, 64, 301}) {
    const SizesOfSamples sizes = drawn_sizes(static_cast<uint32_t>(samples), samples);
    for (const int64_t ranks : {1, 2, 3, 4, 7}) {
      SCOPED_TRACE(std::to_string(samples) + " samples on " + std::to_string(ranks) + " ranks");
      const DividedSamples divided = divide(sizes, budget, ranks);
      ASSERT_EQ(std::ssize(divided), ranks);
      ASSERT_FALSE(divided[0].empty());
      Batch all;
      for (const Batches& own : divided) {
        EXPECT_EQ(own.size(), divided[0].size());
        for (const Batch& batch : own) {
          EXPECT_TRUE(std::ranges::is_sorted(batch));
          const Sizes sums = sum_of(sizes, batch);
          EXPECT_LE(sums.at("atoms"), 64);
          EXPECT_LE(sums.at("edges"), 330);
          all.insert(all.end(), batch.begin(), batch.end());
        }
      }
      std::ranges::sort(all);
      Batch expected(static_cast<size_t>(samples));
      std::iota(expected.begin(), expected.end(), 0);
      EXPECT_EQ(all, expected);
      EXPECT_EQ(divide(sizes, budget, ranks), divided);
    }
  }
}

// Of two micro-batches neither has room for the last sample. The third one makes room for smaller ones everywhere.
TEST(DividedSamples, MatchesHandCalculation) {
  const SizesOfSamples sizes = {{"atoms", {5, 4, 3, 3, 3}}};
  EXPECT_EQ(divide(sizes, {{"atoms", 9}}, 1), (DividedSamples{{{1, 4}, {2, 3}, {0}}}));
  EXPECT_EQ(divide(sizes, {{"atoms", 9}}, 2), (DividedSamples{{{2, 4}, {3}}, {{0}, {1}}}));
  EXPECT_EQ(divide(sizes, {{"atoms", 18}}, 1), (DividedSamples{{{0, 1, 2, 3, 4}}}));
}

TEST(DividedSamples, FillTheBudgetWhereSamplesAreEqual) {
  const DividedSamples divided = divide({{"atoms", Batch(24, 5)}}, {{"atoms", 20}}, 2);
  for (const Batches& own : divided) {
    ASSERT_EQ(own.size(), 3u);
    for (const Batch& batch : own) EXPECT_EQ(batch.size(), 4u);
  }
}

TEST(DividedSamples, OnlySizesOfTheBudgetLimitMicroBatches) {
  const SizesOfSamples sizes = {{"atoms", {1, 1, 1}}, {"edges", {6, 6, 6}}};
  EXPECT_EQ(divide(sizes, {{"atoms", 3}}, 1).front().size(), 1u);
  EXPECT_EQ(divide(sizes, {{"atoms", 3}, {"edges", 12}}, 1).front().size(), 2u);
}

TEST(DividedSamples, LeaveRanksEmptyWhereSamplesAreFew) {
  EXPECT_EQ(divide({{"atoms", {7}}}, {{"atoms", 7}}, 3), (DividedSamples{{{0}}, {{}}, {{}}}));
  EXPECT_EQ(divide({{"atoms", {0, 0}}}, {{"atoms", 1}}, 2), (DividedSamples{{{0, 1}}, {{}}}));
}

TEST(DividedSamples, ASampleLargerThanTheBudgetIsRefusedWithTheWayOut) {
  const SizesOfSamples sizes = {{"atoms", {9, 2100, 12, 2050}}, {"edges", {1, 1, 1, 1}}};
  check_budget(sizes, {{"atoms", 2100}, {"edges", 1}}, "molecules");
  try {
    check_budget(sizes, {{"atoms", 2048}, {"edges", 1}}, "molecules");
    FAIL() << "nothing was refused";
  } catch (const UserError& error) {
    EXPECT_THAT(
        error.what(),
        AllOf(HasSubstr("train.micro_batch_sizes = {\"atoms\" = 2048, \"edges\" = 1} is too small for molecules"),
              HasSubstr("2 of its samples have more than 2,048 atoms"), HasSubstr("sample 1 (counted from 0)"),
              HasSubstr("with 2,100; use micro_batch_sizes = {\"atoms\" = 2100, \"edges\" = 1} or more")));
  }
}

TEST(OwnSamples, ConsecutiveIfThereIsNoBudget) {
  const auto of_rank = [](int64_t rank) {
    return own_samples({.samples = 5, .rank = rank, .ranks = 2, .micro_batch = 2}, nullptr);
  };
  EXPECT_EQ(of_rank(0), (Batches{{0, 1}, {}}));
  EXPECT_EQ(of_rank(1), (Batches{{2, 3}, {4}}));
}

TEST(OwnSamples, EqualTheDivisionUnderABudget) {
  const SizesOfSamples sizes = {{"atoms", {5, 4, 3, 3, 3}}};
  for (const int64_t rank : {0, 1}) {
    const StepShare share{.samples = 5, .rank = rank, .ranks = 2, .budget = {{"atoms", 9}}};
    EXPECT_EQ(own_samples(share, [&] { return sizes; }), divide(sizes, share.budget, 2).at(static_cast<size_t>(rank)));
  }
}

TEST(DividedRounds, EvaluateEverySampleOnceAndDivideOnce) {
  const HeldOut held_out{.dataset = "molecules", .samples = {3, 4, 8, 9, 11}};
  int divisions = 0;
  const DividedRounds divided([&](const HeldOut& of) {
    ++divisions;
    EXPECT_EQ(of.samples, held_out.samples);
    return SizesOfSamples{{"atoms", {5, 4, 3, 3, 3}}};
  });
  for (const Sizes& budget : {Sizes{}, Sizes{{"atoms", 9}}}) {
    RoundShare share{.ranks = 2, .micro_batch = 1, .budget = budget};
    const int64_t rounds = divided.rounds(held_out, share);
    EXPECT_EQ(rounds, budget.empty() ? 3 : 2);
    Batch all;
    for (share.round = 0; share.round < rounds; ++share.round) {
      for (share.rank = 0; share.rank < share.ranks; ++share.rank) {
        for (const int64_t place : divided.samples(held_out, share)) all.push_back(place);
      }
    }
    std::ranges::sort(all);
    EXPECT_EQ(all, (Batch{0, 1, 2, 3, 4}));
    EXPECT_EQ(divisions, budget.empty() ? 0 : 1);
  }
}

}  // namespace
}  // namespace terrace::data
