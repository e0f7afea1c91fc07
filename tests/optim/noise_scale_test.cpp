// Tests the estimate of the gradient noise scale against gradients whose mean and covariance are known.
#include "terrace/optim/noise_scale.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace terrace::optim {
namespace {

// With |G|^2 = 3 and tr(S) = 24, batches of 2 and of 8 samples have squared norms of 15 and 6.
constexpr GradientSquares of_two_and_eight{.small = 15, .inverse_samples = 0.5, .large = 6, .samples = 8};

TEST(NoiseScale, SolvesForNoiseAndSignal) {
  NoiseScale scale;
  EXPECT_TRUE(std::isnan(scale.samples()));
  scale.add(of_two_and_eight);
  EXPECT_DOUBLE_EQ(scale.samples(), 8);
  EXPECT_NEAR(scale.noise / (1 - noise_scale_memory), 24, 1e-12);
  EXPECT_NEAR(scale.signal / (1 - noise_scale_memory), 3, 1e-12);
  EXPECT_EQ(scale.measurements, 1);
}

// The ratio of averages, not the average of ratios, which a gradient near zero would dominate.
TEST(NoiseScale, AveragesBothTermsApart) {
  NoiseScale scale;
  scale.add(of_two_and_eight);
  scale.add({.small = 30, .inverse_samples = 0.5, .large = 9, .samples = 8});  // 56 and 2
  const double kept = noise_scale_memory;
  EXPECT_NEAR(scale.samples(), (kept * 24 + 56) / (kept * 3 + 2), 1e-12);
}

TEST(NoiseScale, HasNoValueWhereTheNoiseHidesTheGradient) {
  NoiseScale scale;
  scale.add({.small = 16, .inverse_samples = 0.5, .large = 3, .samples = 8});
  EXPECT_LT(scale.signal, 0);
  EXPECT_TRUE(std::isnan(scale.samples()));
}

TEST(NoiseScale, LeavesOutMeasurementsWithoutResult) {
  NoiseScale scale;
  scale.add(of_two_and_eight);
  const NoiseScale before = scale;
  for (const double bad : {std::numeric_limits<double>::infinity(), std::nan("")}) {
    scale.add({.small = bad, .inverse_samples = 0.5, .large = 6, .samples = 8});
    scale.add({.small = 15, .inverse_samples = 0.5, .large = bad, .samples = 8});
  }
  scale.add({.small = 6, .inverse_samples = 0.125, .large = 6, .samples = 8});  // one batch twice
  EXPECT_EQ(scale, before);
}

}  // namespace
}  // namespace terrace::optim
