// Trends whose effects are known.
#include "terrace/search/proposals/logistic_trend.h"

#include <gtest/gtest.h>

#include <cmath>

namespace terrace::search {
namespace {

TEST(LogisticTrend, FitsTheSharesOfACategory) {
  // Outcomes are 1 for 3 of 4 in the first category, and for 1 of 4 in the second one; a prior draws both a little
  // towards each other.
  std::vector<double> points, outcomes;
  for (int i = 0; i < 400; ++i) {
    points.push_back(i < 200 ? 0 : 1);
    outcomes.push_back((i % 4 == 0) == (i < 200) ? -1 : 1);
  }
  LogisticTrend trend({true});
  trend.fit(points, outcomes);
  EXPECT_NEAR(trend.expected(std::vector{0.0}), 0.5, 0.01);
  EXPECT_NEAR(trend.expected(std::vector{1.0}), -0.5, 0.01);
  EXPECT_NEAR(trend.expected(std::vector{2.0}), 0, 0.3) << "a category that no outcome has";
}

TEST(LogisticTrend, ZeroSlopeOfThePosteriorAtTheFit) {
  // The derivative of the posterior by each effect, from differences of expected outcomes alone: the sum of errors
  // times a coordinate is the effect over its prior's variance.
  std::vector<double> points, outcomes;
  for (int i = 0; i < 60; ++i) {
    const double x = (i % 10) / 9.0, y = static_cast<double>(i / 10) / 5.0;
    points.insert(points.end(), {x, y});
    outcomes.push_back(x + 0.4 * y > 0.5 + 0.3 * std::sin(7 * i) ? 1 : -1);
  }
  LogisticTrend trend({false, false});
  trend.fit(points, outcomes);
  const auto log_odds = [&](double x, double y) { return 2 * std::atanh(trend.expected(std::vector{x, y})); };
  for (const int axis : {0, 1}) {
    double slope = 0;
    for (size_t i = 0; i < outcomes.size(); ++i) {
      const double at = points[2 * i + static_cast<size_t>(axis)] - 0.5;
      slope += at * 0.5 * (outcomes[i] - trend.expected(std::vector{points[2 * i], points[2 * i + 1]}));
    }
    const double effect = axis == 0 ? log_odds(1, 0.5) - log_odds(0, 0.5) : log_odds(0.5, 1) - log_odds(0.5, 0);
    EXPECT_GT(effect, 1);
    EXPECT_NEAR(slope, effect / 25, 1e-6);
  }
}

TEST(LogisticTrend, ExtrapolatesBeyondTheOutcomes) {
  LogisticTrend trend({false});
  const std::vector<double> points{0, 0.05, 0.1, 0.15, 0.2, 0.25}, outcomes{1, 1, 1, -1, -1, -1};
  trend.fit(points, outcomes);
  EXPECT_LT(trend.expected(std::vector{1.0}), trend.expected(std::vector{0.25}) - 0.2);
  EXPECT_LT(trend.expected(std::vector{1.0}), -0.9);
}

TEST(LogisticTrend, ReturnsTheOutcomeIfAllAreAlike) {
  LogisticTrend trend({false, true});
  trend.fit(std::vector{0.1, 0.0, 0.2, 1.0}, std::vector{-1.0, -1.0});
  EXPECT_EQ(trend.expected(std::vector{0.9, 0.0}), -1);
}

}  // namespace
}  // namespace terrace::search
