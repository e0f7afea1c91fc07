// Checks that initial values are normal and a function of key and global index, for any threads and any range.
#include "terrace/ops/initial.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace terrace::ops {
namespace {

const PhiloxKey key = stream_key(17, "blocks.0.ffn.first.weight");

at::Tensor filled(at::IntArrayRef shape, at::ScalarType type = at::kFloat, int64_t first = 0) {
  at::Tensor tensor = at::empty(shape, at::TensorOptions().dtype(type));
  fill_normal(tensor, key, 0.02, first);
  return tensor;
}

TEST(InitialValues, EqualTheirDefinition) {
  for (int64_t size : {1, 3, 4, 63, 64, 65, 1001}) {
    const at::Tensor values = filled({size});
    for (int64_t n = 0; n < size; ++n) {
      const double p = (philox_at(key, static_cast<uint64_t>(n / 4), 0)[n % 4] + 0.5) / 4294967296.0;
      ASSERT_EQ(values[n].item<float>(), static_cast<float>(0.02 * normal_quantile(p))) << n;
    }
  }
}

TEST(InitialValues, MomentsOfTheNormalDistribution) {
  const int64_t count = 200000;
  const at::Tensor z = filled({count}, at::kDouble).div(0.02);
  const double root = std::sqrt(static_cast<double>(count));
  // Moments of the standard normal; the standard deviations of z, z^2, z^3, z^4 are 1, sqrt 2, sqrt 15, sqrt 96.
  EXPECT_NEAR(z.mean().item<double>(), 0.0, 5.0 / root);
  EXPECT_NEAR(z.pow(2).mean().item<double>(), 1.0, 5.0 * std::sqrt(2.0) / root);
  EXPECT_NEAR(z.pow(3).mean().item<double>(), 0.0, 5.0 * std::sqrt(15.0) / root);
  EXPECT_NEAR(z.pow(4).mean().item<double>(), 3.0, 5.0 * std::sqrt(96.0) / root);
}

double uniform_at(int64_t n) { return (philox_at(key, static_cast<uint64_t>(n / 4), 0)[n % 4] + 0.5) / 4294967296.0; }

TEST(InitialValues, UniformOnesAreThoseOfTheStream) {
  const int64_t count = 200000;
  at::Tensor values = at::empty({count}), doubles = values.to(at::kDouble);
  fill_uniform(values, key, -0.3, 0.5);
  fill_uniform(doubles, key, -0.3, 0.5);
  for (int64_t n : {0, 1, 63, 64, 1001}) EXPECT_EQ(doubles[n].item<double>(), -0.3 + 0.8 * uniform_at(n)) << n;
  EXPECT_TRUE(values.equal(doubles.to(at::kFloat)));
  EXPECT_GT(doubles.min().item<double>(), -0.3);
  EXPECT_LT(doubles.max().item<double>(), 0.5);
  // The mean of the range, and its length over the square root of 12; the fourth central moment is the length to the
  // fourth over 80.
  const double root = std::sqrt(static_cast<double>(count)), variance = 0.64 / 12;
  EXPECT_NEAR(doubles.mean().item<double>(), 0.1, 5 * std::sqrt(variance) / root);
  EXPECT_NEAR(doubles.sub(0.1).pow(2).mean().item<double>(), variance,
              5 * std::sqrt(0.8 * 0.8 * 0.8 * 0.8 / 80 - variance * variance) / root);
  at::Tensor part = at::empty({100});
  fill_uniform(part, key, -0.3, 0.5, 77);
  EXPECT_TRUE(part.equal(values.narrow(0, 77, 100)));
}

// The standard normal distribution that is cut at +-c has mean 0 and variance 1 - 2 c phi(c) / (2 Phi(c) - 1).
TEST(InitialValues, TruncatedOnesHaveTheVarianceOfTheCut) {
  const int64_t count = 200000;
  for (const double cut : {0.5, 2.0, 3.0}) {
    at::Tensor values = at::empty({count}, at::TensorOptions(at::kDouble)), rounded = at::empty({count});
    fill_truncated_normal(values, key, 0.02, cut);
    fill_truncated_normal(rounded, key, 0.02, cut);
    EXPECT_TRUE(rounded.equal(values.to(at::kFloat)));
    const at::Tensor z = values.div(0.02);
    const double below = std::erfc(cut / std::sqrt(2.0)) / 2;
    for (int64_t n : {0, 5, 64}) {
      EXPECT_NEAR(z[n].item<double>(), normal_quantile(below + (1 - 2 * below) * uniform_at(n)), 1e-14) << n;
    }
    const double inside = 1 - 2 * below, density = std::exp(-cut * cut / 2) / std::sqrt(2 * std::acos(-1.0));
    const double variance = 1 - 2 * cut * density / inside;
    const double fourth = 3 - 2 * (cut * cut * cut + 3 * cut) * density / inside;
    const double root = std::sqrt(static_cast<double>(count));
    EXPECT_NEAR(z.mean().item<double>(), 0, 5 * std::sqrt(variance) / root);
    EXPECT_NEAR(z.pow(2).mean().item<double>(), variance, 5 * std::sqrt(fourth - variance * variance) / root);
    EXPECT_LE(z.abs().max().item<double>(), cut * (1 + 1e-15));
    EXPECT_GT(z.abs().max().item<double>(), 0.99 * cut);
    at::Tensor part = at::empty({100});
    fill_truncated_normal(part, key, 0.02, cut, 77);
    EXPECT_TRUE(part.equal(rounded.narrow(0, 77, 100)));
  }
}

TEST(InitialValues, SameBitsOnAnyThreads) {
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const at::Tensor alone = filled({300007});
  at::set_num_threads(3);
  const at::Tensor together = filled({300007});
  at::set_num_threads(threads);
  EXPECT_TRUE(alone.equal(together));
}

TEST(InitialValues, EveryRangeHasTheValuesOfTheWhole) {
  const at::Tensor whole = filled({385});
  for (int64_t first : {1, 3, 64, 100, 384}) {
    const int64_t size = std::min<int64_t>(385 - first, 130);
    EXPECT_TRUE(filled({size}, at::kFloat, first).equal(whole.narrow(0, first, size))) << "from " << first;
  }
}

TEST(InitialValues, RoundOnceToTheirType) {
  EXPECT_TRUE(filled({999}, at::kBFloat16).equal(filled({999}).to(at::kBFloat16)));
  EXPECT_TRUE(filled({999}).equal(filled({999}, at::kDouble).to(at::kFloat)));
}

}  // namespace
}  // namespace terrace::ops
