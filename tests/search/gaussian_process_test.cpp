// Predicts values from points whose covariances can be worked out by hand.
#include "terrace/search/proposals/gaussian_process.h"

#include <gtest/gtest.h>

#include <cmath>

namespace terrace::search {
namespace {

using At = std::vector<double>;

GaussianProcess model_of(const std::vector<At>& points, const std::vector<double>& values,
                         const std::vector<bool>& is_categorical) {
  GaussianProcess model(is_categorical);
  for (const At& point : points) model.add(point);
  model.set_values(values);
  return model;
}

// The value at a distance of x lengths.
double matern(double x) { return (1 + std::sqrt(5) * x + 5 * x * x / 3) * std::exp(-std::sqrt(5) * x); }

TEST(GaussianProcess, PredictsFromOnePointByTheCovariance) {
  const GaussianProcess model = model_of({{0.5}}, {2}, {false});
  const double noise = 1e-3, length = GaussianProcess::median_length(1);
  // The variance with the greatest likelihood, of one value and another one of 1.
  const double scale = (2 * 2 / (1 + noise) + 1) / 2;
  for (const double at : {0.5, 0.6, 1.0}) {
    const double known = matern((at - 0.5) / length);
    const auto prediction = model.predict(At{at});
    EXPECT_NEAR(prediction.mean, known * 2 / (1 + noise), 1e-12);
    EXPECT_NEAR(prediction.variance, scale * (1 - known * known / (1 + noise)), 1e-12);
  }
}

TEST(GaussianProcess, KnowsNothingOfTheOrderOfWords) {
  const GaussianProcess model = model_of({{0}}, {1}, {true});
  EXPECT_EQ(model.predict(At{0.25}).mean, model.predict(At{1}).mean);
}

TEST(GaussianProcess, ReturnsTheValuesOfItsPoints) {
  std::vector<At> points;
  std::vector<double> values;
  for (int i = 0; i <= 10; ++i) {
    points.push_back({i / 10.0, i % 2 == 0 ? 0.0 : 1.0});
    values.push_back(std::sin(0.3 * i) + i % 2);
  }
  GaussianProcess model = model_of(points, values, {false, true});
  model.fit();
  model.set_values(values);
  for (size_t i = 0; i < points.size(); ++i) EXPECT_NEAR(model.predict(points[i]).mean, values[i], 0.1);
}

TEST(GaussianProcess, FindsThatACoordinateDoesNotMatter) {
  std::vector<At> points;
  std::vector<double> values;
  for (int i = 0; i < 25; ++i) {
    points.push_back({i % 5 / 4.0, i / 5 / 4.0});
    values.push_back(std::cos(3 * points.back()[0]));
  }
  GaussianProcess model = model_of(points, values, {false, false});
  for (int i = 0; i < 4; ++i) model.fit();
  model.set_values(values);
  const auto slope = [&](const At& a, const At& b) { return std::abs(model.predict(a).mean - model.predict(b).mean); };
  EXPECT_GT(slope({0.1, 0.4}, {0.6, 0.4}), 100 * slope({0.4, 0.1}, {0.4, 0.6}));
}

TEST(GaussianProcess, BoundsItsVariance) {
  const GaussianProcess model = model_of({{0, 0}, {1, 0}, {0.3, 0.8}}, {1, -1, 0}, {false, false});
  for (int i = 0; i <= 10; ++i) {
    const At at = {i / 10.0, 0.4};
    EXPECT_EQ(model.bound(at).mean, model.predict(at).mean);
    EXPECT_GE(model.bound(at).variance, model.predict(at).variance);
  }
}

TEST(GaussianProcess, KeepsItsMeanWithAnExpectedPoint) {
  GaussianProcess model = model_of({{0.1}, {0.7}}, {1, -1}, {false});
  const auto before = model.predict(At{0.3});
  model.add_expected(At{0.35});
  EXPECT_NEAR(model.predict(At{0.3}).mean, before.mean, 1e-12);
  EXPECT_LT(model.predict(At{0.3}).variance, before.variance / 2);
  model.truncate(2);
  model.set_values({1, -1});
  EXPECT_EQ(model.predict(At{0.3}).variance, before.variance);
}

}  // namespace
}  // namespace terrace::search
