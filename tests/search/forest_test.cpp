// Fits forests to functions with known values.
#include "terrace/search/forest.h"

#include <gtest/gtest.h>

#include <cmath>

#include "terrace/base/random.h"

namespace terrace::search {
namespace {

using Samples = std::vector<std::vector<double>>;

constexpr size_t trees = 10;

// Uniform in the unit square.
Samples random_samples(size_t count) {
  const PhiloxKey key = stream_key(3, "samples");
  Samples samples;
  for (size_t i = 0; i < count; ++i) {
    const PhiloxBlock block = philox_at(key, i, 0);
    samples.push_back({unit_uniform(block[0], block[1]), unit_uniform(block[2], block[3])});
  }
  return samples;
}

double step(const std::vector<double>& at) { return at[0] < 0.5 ? 1 : at[1] < 0.25 ? 5 : 3; }

std::vector<double> values_at(const Samples& samples, double (*function)(const std::vector<double>&)) {
  std::vector<double> values;
  for (const auto& sample : samples) values.push_back(function(sample));
  return values;
}

TEST(Forest, HasTheValueOfEachSample) {
  const Samples samples = random_samples(50);
  const std::vector<double> values = values_at(samples, [](const auto& at) { return at[0] * at[1]; });
  const Forest forest(samples, values, trees, 1);
  for (size_t i = 0; i < samples.size(); ++i) {
    EXPECT_NEAR(forest.predict(samples[i]).mean, values[i], 1e-15);
    EXPECT_NEAR(forest.predict(samples[i]).spread, 0, 1e-15);
  }
}

TEST(Forest, FitsAStepFunction) {
  const Samples samples = random_samples(400);
  const Forest forest(samples, values_at(samples, step), trees, 1);
  // Away from the steps the nearest samples on all sides have the same value.
  EXPECT_EQ(forest.predict(std::vector<double>{0.2, 0.7}).mean, 1);
  EXPECT_EQ(forest.predict(std::vector<double>{0.8, 0.1}).mean, 5);
  EXPECT_EQ(forest.predict(std::vector<double>{0.8, 0.7}).mean, 3);
}

TEST(Forest, IsSurerWithMoreData) {
  const auto mean_spread = [](size_t count) {
    const Samples samples = random_samples(count);
    const Forest forest(samples, values_at(samples, [](const auto& at) { return std::sin(6 * at[0]) + at[1]; }), trees,
                        1);
    double sum = 0;
    for (int i = 0; i < 20; ++i) {
      for (int j = 0; j < 20; ++j) sum += forest.predict(std::vector<double>{i / 20.0, j / 20.0}).spread;
    }
    return sum / 400;
  };
  EXPECT_LT(mean_spread(100), 0.7 * mean_spread(10));
  EXPECT_LT(mean_spread(1000), 0.7 * mean_spread(100));
}

TEST(Forest, DependsOnTheSeedAlone) {
  const Samples samples = random_samples(20);
  const std::vector<double> values = values_at(samples, [](const auto& at) { return at[0] - at[1]; });
  const std::vector<double> where = {0.3, 0.6};
  EXPECT_EQ(Forest(samples, values, trees, 1).predict(where).mean,
            Forest(samples, values, trees, 1).predict(where).mean);
  EXPECT_NE(Forest(samples, values, trees, 1).predict(where).mean,
            Forest(samples, values, trees, 2).predict(where).mean);
}

TEST(Forest, TakesTheMeanOfSamplesThatAreEqual) {
  const Forest forest({{1, 2}, {1, 2}, {1, 2}}, {3, 4, 8}, trees, 1);
  EXPECT_EQ(forest.predict(std::vector<double>{1, 2}).mean, 5);
  EXPECT_EQ(Forest({{1}}, {7}, trees, 1).predict(std::vector<double>{-5}).mean, 7);
}

}  // namespace
}  // namespace terrace::search
