// Tests the division of samples into micro-batches: small ones worked out by hand, and of drawn ones what must hold for
// every division.
#include "terrace/data/divided_samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <tuple>
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

// Expects every sample once, in ascending order within each micro-batch, of which all ranks have as many, and none
// exceeds the budget.
void expect_every_sample_once(const DividedSamples& divided, const SizesOfSamples& sizes, const Sizes& budget,
                              int64_t samples) {
  Batch all;
  for (const Batches& own : divided) {
    EXPECT_EQ(own.size(), divided[0].size());
    for (const Batch& batch : own) {
      EXPECT_TRUE(std::ranges::is_sorted(batch));
      const Sizes sums = sum_of(sizes, batch);
      for (const auto& [name, most] : budget) EXPECT_LE(sums.at(name), most);
      all.insert(all.end(), batch.begin(), batch.end());
    }
  }
  std::ranges::sort(all);
  Batch expected(static_cast<size_t>(samples));
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(all, expected);
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
      expect_every_sample_once(divided, sizes, budget, samples);
      EXPECT_EQ(divide(sizes, budget, ranks), divided);
    }
  }
}

// None of two micro-batches has room for the last sample. The third one makes room for smaller ones everywhere.
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

// Sizes with the median, mean and largest of the 11,201 molecules of bench/data/graph_balance.cpp: atoms of a lognormal
// distribution between 2 and 304, and the more edges an atom has, the larger the molecule.
SizesOfSamples drawn_molecules(uint32_t seed, int64_t samples) {
  SizesOfSamples sizes = {{"atoms", {}}, {"edges", {}}};
  for (int64_t i = 0; i < samples; ++i) {
    const PhiloxBlock draw = philox_at({seed, 2}, static_cast<uint64_t>(i), 0);
    const double normal = normal_quantile((static_cast<double>(draw[0]) + 0.5) / 4294967296.0);
    const auto atoms = static_cast<int64_t>(std::clamp(40 * std::exp(0.5 * normal), 2.0, 304.0));
    sizes["atoms"].push_back(atoms);
    sizes["edges"].push_back(atoms * std::min<int64_t>(atoms - 1, 14 + draw[1] % 15));
  }
  return sizes;
}

const SampleCost atoms_and_edges = {.sample = 0, .of_sizes = {{"atoms", 10}, {"edges", 1}}};

// The mean over the greatest of the ranks' costs.
double balance_of(const DividedSamples& divided, const std::vector<double>& costs) {
  double sum = 0, greatest = 0;
  for (const Batches& own : divided) {
    double of_rank = 0;
    for (const Batch& batch : own) {
      for (const int64_t sample : batch) of_rank += costs[static_cast<size_t>(sample)];
    }
    sum += of_rank;
    greatest = std::max(greatest, of_rank);
  }
  return greatest > 0 ? sum / static_cast<double>(divided.size()) / greatest : 1;
}

TEST(DividedByCost, EverySampleOnceInBudgetWithEqualMicroBatchCounts) {
  for (const Sizes& budget : {Sizes{}, Sizes{{"atoms", 400}, {"edges", 9000}}, Sizes{{"edges", 100000}}}) {
    for (const int64_t samples : {0, 1, 2, 7, 64, 301}) {
      const SizesOfSamples sizes = drawn_molecules(static_cast<uint32_t>(samples), samples);
      for (const int64_t ranks : {1, 2, 3, 4, 7}) {
        SCOPED_TRACE(std::to_string(samples) + " samples on " + std::to_string(ranks) + " ranks");
        const MicroBatchLimit limit{.samples = 5, .budget = budget};
        const DividedSamples divided = divide_by_cost(sizes, atoms_and_edges, limit, ranks);
        ASSERT_EQ(std::ssize(divided), ranks);
        expect_every_sample_once(divided, sizes, budget, samples);
        if (budget.empty()) {
          EXPECT_EQ(std::ssize(divided[0]), std::max<int64_t>(1, ((samples + ranks - 1) / ranks + 4) / 5));
        }
        EXPECT_EQ(divide_by_cost(sizes, atoms_and_edges, limit, ranks), divided);
      }
    }
  }
}

// Costs 8, 7, 6, 5, 4: 8 and 5 against 7 and 6, then 4 to the rank of 13 that comes first.
TEST(DividedByCost, MatchesHandCalculation) {
  const SizesOfSamples sizes = {{"atoms", {4, 6, 8, 5, 7}}};
  const SampleCost cost{.sample = 0, .of_sizes = {{"atoms", 1}}};
  EXPECT_EQ(divide_by_cost(sizes, cost, {.samples = 3}, 2), (DividedSamples{{{0, 2, 3}}, {{1, 4}}}));
  // Two micro-batches a rank: of 8, 5 and 4 the cheap ones together, and the expensive one first where costs differ.
  EXPECT_EQ(divide_by_cost(sizes, cost, {.samples = 2}, 2), (DividedSamples{{{0, 3}, {2}}, {{4}, {1}}}));
  // With at most 8 atoms 8, 5 and 4 need three micro-batches, so 7 and 6 have an empty one.
  EXPECT_EQ(divide_by_cost(sizes, cost, {.budget = {{"atoms", 8}}}, 2),
            (DividedSamples{{{2}, {3}, {0}}, {{4}, {1}, {}}}));
}

TEST(DividedByCost, SamplesWithoutCostAreDealtByTheirNumber) {
  const SampleCost cost{.sample = 0, .of_sizes = {{"atoms", 1}}};
  const DividedSamples divided = divide_by_cost({{"atoms", Batch(12, 0)}}, cost, {.samples = 2}, 3);
  for (const Batches& own : divided) {
    ASSERT_EQ(own.size(), 2u);
    for (const Batch& batch : own) EXPECT_EQ(batch.size(), 2u);
  }
}

TEST(DividedByCost, RanksHaveNearlyEqualCost) {
  for (const auto& [ranks, samples, least] : {std::tuple{8, 8 * 32, 0.99}, {64, 64 * 8, 0.98}}) {
    double sum = 0;
    constexpr int steps = 40;
    for (uint32_t step = 0; step < steps; ++step) {
      const SizesOfSamples sizes = drawn_molecules(step, samples);
      const std::vector<double> costs = costs_of(sizes, atoms_and_edges);
      sum += balance_of(divide_by_cost(sizes, atoms_and_edges, {.samples = samples}, ranks), costs);
      const MicroBatchLimit limit{.budget = {{"atoms", 1000}, {"edges", 30000}}};
      const DividedSamples under_budget = divide_by_cost(sizes, atoms_and_edges, limit, ranks);
      EXPECT_EQ(balance_of(under_budget, costs),
                balance_of(divide_by_cost(sizes, atoms_and_edges, {.samples = samples}, ranks), costs));
    }
    EXPECT_GE(sum / steps, least) << ranks << " ranks";
  }
}

TEST(OwnSamples, EqualTheDivisionByCost) {
  const SizesOfSamples sizes = drawn_molecules(5, 40);
  for (const Sizes& budget : {Sizes{}, Sizes{{"atoms", 400}}}) {
    const DividedSamples divided = divide_by_cost(sizes, atoms_and_edges, {.samples = 3, .budget = budget}, 2);
    for (const int64_t rank : {0, 1}) {
      const StepShare share{.samples = 40, .rank = rank, .ranks = 2, .micro_batch = 3, .budget = budget};
      EXPECT_EQ(own_samples(
                    share, [&] { return sizes; }, atoms_and_edges),
                divided.at(static_cast<size_t>(rank)));
    }
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
