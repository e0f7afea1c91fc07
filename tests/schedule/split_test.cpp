// Compares splits by cost with the best of all possible splits, and checks that given splits must fit the model.
#include "terrace/schedule/step/split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "terrace/base/error.h"
#include "terrace/base/random.h"

namespace terrace::schedule {
namespace {

using Counts = std::vector<int64_t>;

TEST(SplitByCost, DividesEqualUnitsEvenlyWithTheSmallerStagesFirst) {
  EXPECT_EQ(split_by_cost(std::vector<double>(8, 1.0), 4), (Counts{2, 2, 2, 2}));
  EXPECT_EQ(split_by_cost(std::vector<double>(10, 1.0), 4), (Counts{2, 2, 3, 3}));
  EXPECT_EQ(split_by_cost(std::vector<double>(5, 0.0), 5), (Counts{1, 1, 1, 1, 1}));
  EXPECT_EQ(split_by_cost({7.0}, 1), (Counts{1}));
}

// An embedding that costs nothing, eight layers of 3, a head of 6: two stages of 15 each.
TEST(SplitByCost, CountsEmbeddingAndHead) {
  EXPECT_EQ(split_by_cost({0, 3, 3, 3, 3, 3, 3, 3, 3, 6}, 2), (Counts{6, 4}));
  // A head of 24 costs as much as all layers together.
  EXPECT_EQ(split_by_cost({0, 3, 3, 3, 3, 3, 3, 3, 3, 24}, 2), (Counts{9, 1}));
  // With four stages, too, the best split leaves the head alone.
  EXPECT_EQ(split_by_cost({0, 3, 3, 3, 3, 3, 3, 3, 3, 24}, 4).back(), 1);
}

double cost_of(const std::vector<double>& costs, const Counts& counts,
               const std::function<double(double, double)>& add) {
  double total = 0;
  auto unit = costs.begin();
  for (const int64_t count : counts) {
    total = add(total, std::accumulate(unit, unit + count, 0.0));
    unit += count;
  }
  return total;
}

void for_each_split(int64_t units, int64_t stages, Counts& counts, const std::function<void(const Counts&)>& visit) {
  if (stages == 1) {
    counts.push_back(units);
    visit(counts);
    counts.pop_back();
    return;
  }
  for (int64_t count = 1; count <= units - stages + 1; ++count) {
    counts.push_back(count);
    for_each_split(units - count, stages - 1, counts, visit);
    counts.pop_back();
  }
}

// The best split has the smallest (largest cost, sum of squared costs, counts). Integer costs make all sums exact.
TEST(SplitByCost, FindsTheBestOfAllSplits) {
  const auto largest = [](double a, double b) { return std::max(a, b); };
  const auto squares = [](double a, double b) { return a + b * b; };
  for (uint64_t draw = 0; draw < 40; ++draw) {
    const auto units = static_cast<int64_t>(1 + draw % 11);
    std::vector<double> costs;
    for (int64_t unit = 0; unit < units; ++unit) {
      costs.push_back(static_cast<double>(philox_at({3, 9}, draw, static_cast<uint64_t>(unit))[0] % 8));
    }
    for (int64_t stages = 1; stages <= units; ++stages) {
      std::tuple<double, double, Counts> best{1e9, 1e9, {}};
      Counts counts;
      for_each_split(units, stages, counts, [&](const Counts& split) {
        best = std::min(best, {cost_of(costs, split, largest), cost_of(costs, split, squares), split});
      });
      EXPECT_EQ(split_by_cost(costs, stages), std::get<2>(best)) << "draw " << draw << ", " << stages << " stages";
    }
  }
}

// With every pair of units compared, this would take hours.
TEST(SplitByCost, TakesAMomentForManyUnits) {
  constexpr int64_t units = 100'003, stages = 64;
  std::vector<double> costs(units, 3.0);
  costs.front() = 0;
  costs.back() = 6;
  EXPECT_EQ(split_by_cost(costs, 1), (Counts{units}));
  const Counts counts = split_by_cost(costs, stages);
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), int64_t{0}), units);
  const auto [least, most] = std::ranges::minmax(counts);
  EXPECT_LE(most - least, 2);  // the first stage has one more for the unit without cost, the last one fewer for its 6
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(SplitByCost, RefusesMoreStagesThanUnits) {
  EXPECT_EQ(error_of([] {
              split_by_cost({1, 1, 1}, 4);
            }),
            "4 virtual stages (stages * chunks) are more than the 3 units of the model; use at most 3");
}

TEST(GivenSplit, CoversAllLayers) {
  const auto problem = [](const Counts& counts, int64_t layers, int64_t stages) {
    return error_of([&] { check_given_split(counts, layers, stages); });
  };
  EXPECT_EQ(problem({3, 4, 3}, 10, 3), "");
  EXPECT_EQ(problem({0, 4, 0}, 4, 3), "");
  EXPECT_EQ(problem({4}, 4, 1), "");
  EXPECT_EQ(problem({3, 4}, 7, 3),
            "the split names 2 virtual stages, but there are 3 (stages * chunks); give 3 numbers, such as 2, 2, 3");
  EXPECT_EQ(problem({3, 4, 4}, 10, 3),
            "the split has 11 layers in all, but the model has 10; use 3, 3, 4, for example");
  EXPECT_EQ(problem({5, 0, 5}, 10, 3), "the split gives 0 layers to virtual stage 1; use 1 or more");
  EXPECT_EQ(problem({-1, 6, 5}, 10, 3), "the split gives -1 layers to virtual stage 0; use 0 or more");
}

}  // namespace
}  // namespace terrace::schedule
