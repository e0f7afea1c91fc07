// Fits forests to functions with known values.
#include "terrace/search/proposals/forest.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace terrace::search {
namespace {

constexpr PhiloxKey forest_key = {3, 7};

// Points uniform in the unit square, [count, 2], and the values of a function there.
struct Samples {
  Samples(size_t count, double (*function)(double, double)) {
    for (size_t i = 0; i < count; ++i) {
      const PhiloxBlock block = philox_at(stream_key(3, "samples"), i, 0);
      const double x = unit_uniform(block[0], block[1]), y = unit_uniform(block[2], block[3]);
      points.insert(points.end(), {x, y});
      values.push_back(function(x, y));
    }
  }

  std::span<const double> point(size_t number) const { return std::span(points).subspan(2 * number, 2); }
  Forest forest() const {
    Forest forest({false, false});
    forest.fit(points, values, forest_key);
    return forest;
  }

  std::vector<double> points, values;
};

Forest::Prediction predicted(const Forest& forest, std::vector<double> point) { return forest.predict(point); }

TEST(Forest, ReturnsTheValueOfEachSample) {
  const Samples samples(51, [](double x, double y) { return x * y; });
  const Forest forest = samples.forest();
  for (size_t i = 0; i < samples.values.size(); ++i) {
    // The mean of equal values is that value to the rounding of the recurrence.
    EXPECT_DOUBLE_EQ(forest.predict(samples.point(i)).mean, samples.values[i]);
    EXPECT_EQ(forest.predict(samples.point(i)).spread, 0);
  }
}

TEST(Forest, FitsAStepFunction) {
  const Forest forest = Samples(400, [](double x, double y) { return x < 0.5 ? 1.0 : y < 0.25 ? 5.0 : 3.0; }).forest();
  // Away from the steps the nearest samples on all sides have the same value.
  EXPECT_EQ(predicted(forest, {0.2, 0.7}).mean, 1);
  EXPECT_EQ(predicted(forest, {0.8, 0.1}).mean, 5);
  EXPECT_EQ(predicted(forest, {0.8, 0.7}).mean, 3);
}

TEST(Forest, LargerSpreadAwayFromTheSamples) {
  Forest forest({false});
  forest.fit(std::vector<double>{0, 0.1, 0.2, 0.8, 0.9, 1}, std::vector<double>{0, 1, 2, 8, 9, 10}, forest_key);
  // Each tree has a cut of its own between 0.2 and 0.8.
  EXPECT_GT(predicted(forest, {0.5}).spread, 1);
  EXPECT_LE(predicted(forest, {0.15}).spread, 0.5) << "of the values 1 and 2";
}

TEST(Forest, SmallerSpreadWithMoreSamples) {
  const auto mean_spread = [](size_t count) {
    const Forest forest = Samples(count, [](double x, double y) { return std::sin(6 * x) + y; }).forest();
    double sum = 0;
    for (int i = 0; i < 400; ++i) sum += predicted(forest, {i % 20 / 20.0, i / 20 / 20.0}).spread;  // NOLINT
    return sum / 400;
  };
  EXPECT_LT(mean_spread(100), 0.7 * mean_spread(10));
  EXPECT_LT(mean_spread(1000), 0.7 * mean_spread(100));
}

TEST(Forest, TellsOneCategoryFromAllOthers) {
  Forest forest({true});
  const std::vector<double> points = {0, 1, 2, 3, 4}, values = {1, 1, 9, 1, 1};
  forest.fit(points, values, forest_key);
  for (size_t i = 0; i < points.size(); ++i) EXPECT_EQ(predicted(forest, {points[i]}).mean, values[i]);
  // A category without a sample is on the side of the others at every cut, so its value is that of a single sample.
  EXPECT_GE(predicted(forest, {7}).mean, 1);
  EXPECT_LE(predicted(forest, {7}).mean, 9);
}

TEST(Forest, DependsOnTheKeyAlone) {
  const Samples samples(20, [](double x, double y) { return x - y; });
  Forest one({false, false}), same({false, false}), other({false, false});
  one.fit(samples.points, samples.values, forest_key);
  same.fit(samples.points, samples.values, {1, 1});
  same.fit(samples.points, samples.values, forest_key);
  other.fit(samples.points, samples.values, {3, 8});
  EXPECT_EQ(predicted(one, {0.3, 0.6}).mean, predicted(same, {0.3, 0.6}).mean);
  EXPECT_EQ(predicted(one, {0.3, 0.6}).spread, predicted(same, {0.3, 0.6}).spread);
  EXPECT_NE(predicted(one, {0.3, 0.6}).mean, predicted(other, {0.3, 0.6}).mean);
}

TEST(Forest, TakesTheMeanOfSamplesAtOnePoint) {
  Forest forest({false, false});
  forest.fit(std::vector<double>{1, 2, 1, 2, 1, 2}, std::vector<double>{3, 4, 8}, forest_key);
  EXPECT_EQ(predicted(forest, {1, 2}).mean, 5);
  forest.fit(std::vector<double>{1, 2}, std::vector<double>{7}, forest_key);
  EXPECT_EQ(predicted(forest, {-5, 0}).mean, 7) << "fitted again, to a single sample";
}

}  // namespace
}  // namespace terrace::search
