// Searches small spaces whose best point is known.
#include "terrace/search/proposals/optimizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "terrace/base/error.h"
#include "tests/search/parameters.h"

namespace terrace::search {
namespace {

Space small_space(std::vector<Expression> constraints = {}) {
  return {{integers("a", 0, 9), integers("b", 0, 9), words("c", {"x", "y", "z"})}, {}, std::move(constraints), {}};
}

// The largest, 0, is at a = 7, b = 2, c = "y".
double hill(const Point& at) {
  return -((at[0] - 7) * (at[0] - 7) + (at[1] - 2) * (at[1] - 2) + (at[2] == 1 ? 0 : 30));
}

// Every point with a > 8 fails.
Objective with_failures(const Point& at) { return at[0] > 8 ? Objective() : Objective(hill(at)); }

// The trials that a search needs to find the best point.
int64_t trials_to_best(const Space& space, Method method, uint64_t seed) {
  Optimizer optimizer(space, {.method = method, .seed = seed});
  for (int64_t trial = 1;; ++trial) {
    const Point point = *optimizer.ask();
    if (hill(point) == 0) return trial;
    optimizer.tell(point, with_failures(point));
  }
}

TEST(ModelBased, FindsTheBestPointWithFewerTrialsThanChance) {
  const Space space = small_space();
  std::vector<int64_t> by_surrogate, by_chance;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    by_surrogate.push_back(trials_to_best(space, Method::bayesian, seed));
    by_chance.push_back(trials_to_best(space, Method::random, seed));
  }
  std::ranges::sort(by_surrogate);
  std::ranges::sort(by_chance);
  EXPECT_LT(2 * by_surrogate[10], by_chance[10]) << "medians over 20 seeds";
}

TEST(Optimizer, NeverProposesAPointTwice) {
  const Space space = small_space({Expression("a + b != 3")});
  for (const Method method : {Method::bayesian, Method::random, Method::exhaustive}) {
    Optimizer optimizer(space, {.method = method});
    std::set<Point> seen;
    while (const std::optional<Point> point = optimizer.ask()) {
      EXPECT_TRUE(seen.insert(*point).second);
      EXPECT_NE((*point)[0] + (*point)[1], 3);
      optimizer.tell(*point, hill(*point));
    }
    // All 300 points but those four pairs of a and b, with three words each.
    EXPECT_EQ(seen.size(), 288);
  }
}

TEST(Optimizer, LeavesPointsToOthersThatTryThem) {
  const Space space = small_space();
  for (const Method method : {Method::bayesian, Method::random, Method::exhaustive}) {
    Optimizer optimizer(space, {.method = method});
    for (uint64_t i = 1; i < *space.grid_size(); ++i) optimizer.expect(space.grid_point(i));
    optimizer.tell(space.grid_point(1), 1.0);
    EXPECT_EQ(optimizer.ask(), space.grid_point(0));
    EXPECT_EQ(optimizer.ask(), std::nullopt);
  }
}

TEST(ModelBased, ProposesPointsWhileOthersArePending) {
  const Space space = small_space();
  Optimizer optimizer(space, {.method = Method::bayesian});
  std::set<Point> seen;
  std::vector<Point> pending;
  for (int round = 0; round < 12; ++round) {
    for (int i = 0; i < 4; ++i) {
      pending.push_back(*optimizer.ask());
      EXPECT_TRUE(seen.insert(pending.back()).second);
    }
    for (const Point& point : pending) optimizer.tell(point, hill(point));
    pending.clear();
  }
  EXPECT_EQ(seen.size(), 48);
}

TEST(ModelBased, LearnsFromTrialsThatItDidNotPropose) {
  const Space space = small_space();
  Optimizer optimizer(space, {.method = Method::bayesian});
  std::vector<double> open;
  for (uint64_t i = 0; i < *space.grid_size(); ++i) {
    const Point point = space.grid_point(i);
    if (static_cast<int>(point[0] + point[1]) % 2 == 0) {
      optimizer.tell(point, hill(point));
    } else {
      open.push_back(hill(point));
    }
  }
  std::ranges::sort(open, std::greater<>());
  EXPECT_GE(hill(*optimizer.ask()), open[14]) << "one of the best tenth of the 150 open points";
}

TEST(ModelBased, ProposesNewPointsIfEveryTrialFails) {
  const Space space = small_space();
  Optimizer optimizer(space, {.method = Method::bayesian});
  std::set<Point> asked;
  for (int i = 0; i < 30; ++i) {
    const Point point = *optimizer.ask();
    EXPECT_TRUE(asked.insert(point).second) << "asked twice, as trial " << i;
    optimizer.tell(point, std::nullopt);
  }
}

TEST(Optimizer, SearchesInfiniteSpaces) {
  const Space space({{.name = "rate", .type = Parameter::Type::real, .low = 1e-5, .high = 1, .log = true}}, {}, {}, {});
  Optimizer optimizer(space, {});
  double best = 100;
  for (int i = 0; i < 40; ++i) {
    const Point point = *optimizer.ask();
    const double distance = std::abs(std::log10(point[0]) + 3);
    best = std::min(best, distance);
    optimizer.tell(point, -distance);
  }
  EXPECT_LT(best, 0.02) << "in powers of ten from the best rate, of a range of five";
  EXPECT_THROW(Optimizer(space, {.method = Method::exhaustive}), UserError);
}

// Nine of the 300 points do not fail.
TEST(ModelBased, LearnsWhereTrialsDoNotFail) {
  const Space space = small_space();
  const auto fails = [](const Point& at) { return std::abs(at[0] - 5) > 1 || at[1] < 7 || at[2] != 1; };
  const auto found_by = [&](Method method, uint64_t seed) {
    Optimizer optimizer(space, {.method = method, .seed = seed});
    int64_t found = 0;
    for (int trial = 0; trial < 100; ++trial) {
      const Point point = *optimizer.ask();
      found += fails(point) ? 0 : 1;
      optimizer.tell(point, fails(point) ? Objective() : Objective(hill(point)));
    }
    return found;
  };
  int64_t by_surrogate = 0, by_chance = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    by_surrogate += found_by(Method::bayesian, seed);
    by_chance += found_by(Method::random, seed);
  }
  EXPECT_GT(by_surrogate, 2 * by_chance) << "of 90 points";
}

// A hill of six real numbers, of which the last two have no effect.
TEST(ModelBased, ComesCloseInSixDimensions) {
  std::vector<Parameter> parameters;
  for (const char* name : {"a", "b", "c", "d", "e", "f"}) {
    parameters.push_back({.name = name, .type = Parameter::Type::real, .low = 0, .high = 1});
  }
  const Space space(parameters, {}, {}, {});
  const auto distance = [](const Point& at) {
    double square = 0;
    for (size_t i = 0; i < 4; ++i)
      square += (at[i] - 0.2 * static_cast<double>(i + 1)) * (at[i] - 0.2 * static_cast<double>(i + 1));
    return std::sqrt(square);
  };
  const auto best_of = [&](Method method) {
    Optimizer optimizer(space, {.method = method});
    double best = 10;
    for (int trial = 0; trial < 80; ++trial) {
      const Point point = *optimizer.ask();
      best = std::min(best, distance(point));
      optimizer.tell(point, -distance(point));
    }
    return best;
  };
  EXPECT_LT(4 * best_of(Method::bayesian), best_of(Method::random));
}

TEST(ModelBased, ProposesTheSameWithTheSameSeed) {
  const Space space = small_space();
  Optimizer one(space, {.method = Method::bayesian, .seed = 5}), same(space, {.method = Method::bayesian, .seed = 5}),
      other(space, {.method = Method::bayesian, .seed = 6});
  bool differs = false;
  for (int i = 0; i < 20; ++i) {
    const Point point = *one.ask();
    EXPECT_EQ(*same.ask(), point);
    differs = differs || *other.ask() != point;
    for (Optimizer* optimizer : {&one, &same, &other}) optimizer->tell(point, hill(point));
  }
  EXPECT_TRUE(differs);
}

// Two goals that pull apart, in a space of 6,561 points of which 81 are on the Pareto front.
TEST(Optimizer, FindsTheParetoFrontOfTwoGoals) {
  const Space space({integers("a", 0, 80), integers("b", 0, 80)}, {}, {}, {});
  const auto goals = [](const Point& point) {
    const double beside = std::abs(point[1] - 40) / 40;
    return std::vector<double>{point[0] / 80 - beside, 1 - point[0] / 80 - beside};
  };
  const auto on_the_front = [&](Method method) {
    Optimizer optimizer(space, {.method = method, .seed = 3});
    std::set<double> found;
    for (int trial = 0; trial < 60; ++trial) {
      const Point point = *optimizer.ask();
      optimizer.tell(point, goals(point));
      if (point[1] == 40) found.insert(point[0]);
    }
    return found;
  };
  const std::set<double> found = on_the_front(Method::bayesian);
  EXPECT_GE(found.size(), 10);
  EXPECT_LT(on_the_front(Method::random).size(), 5);
  // The points are of the whole front, not only of its ends or its middle.
  EXPECT_LE(*found.begin(), 10);
  EXPECT_GE(*found.rbegin(), 70);
  EXPECT_TRUE(std::ranges::any_of(found, [](double a) { return a > 25 && a < 55; }));
}

}  // namespace
}  // namespace terrace::search
