// Compares the largest of several variables with tables, closed forms and drawn numbers.
#include "terrace/plan/noise/group_noise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "terrace/base/random.h"

namespace terrace::plan {
namespace {

// Means of the largest of n: Teichroew 1956, Tables of expected values of order statistics; of 2 and 3 they are
// 1 / sqrt(pi) and 3 / (2 sqrt(pi)), and the variances 1 - 1 / pi and 1 + (2 sqrt(3) - 9) / (4 pi).
TEST(LargestNormalMoments, AreThoseOfTables) {
  const double pi = std::numbers::pi;
  EXPECT_NEAR(largest_normal(1).mean, 0, 1e-12);
  EXPECT_NEAR(largest_normal(1).variance, 1, 1e-12);
  EXPECT_NEAR(largest_normal(2).mean, 1 / std::sqrt(pi), 1e-9);
  EXPECT_NEAR(largest_normal(2).variance, 1 - 1 / pi, 1e-9);
  EXPECT_NEAR(largest_normal(3).mean, 1.5 / std::sqrt(pi), 1e-9);
  EXPECT_NEAR(largest_normal(3).variance, 1 + (2 * std::sqrt(3) - 9) / (4 * pi), 1e-9);
  EXPECT_NEAR(largest_normal(4).mean, 1.02938, 1e-5);
  EXPECT_NEAR(largest_normal(8).mean, 1.42360, 1e-5);
  EXPECT_NEAR(largest_normal(20).mean, 1.86748, 1e-5);
}

TEST(LargerOfTwo, HasTheMomentsOfTheLargerOfTwoNormalVariables) {
  const LargerOfTwo independent = larger_of({0, 1}, {0, 1}, 0);
  EXPECT_NEAR(independent.moments.mean, 1 / std::sqrt(std::numbers::pi), 1e-12);
  EXPECT_NEAR(independent.moments.variance, 1 - 1 / std::numbers::pi, 1e-12);
  EXPECT_EQ(independent.first_is_larger, 0.5);
  // A variable and itself, longer by 1.
  const LargerOfTwo same = larger_of({2, 4}, {3, 4}, 4);
  EXPECT_EQ(same.moments.mean, 3);
  EXPECT_EQ(same.moments.variance, 4);
  EXPECT_EQ(same.first_is_larger, 0);
  const LargerOfTwo apart = larger_of({100, 1}, {0, 1}, 0);
  EXPECT_EQ(apart.moments.mean, 100);
  EXPECT_NEAR(apart.moments.variance, 1, 1e-9);
}

TEST(GroupNoise, OfOneRankKeepsTheMean) {
  const machine::Noise noise{.instruction_spread = 0.1};
  EXPECT_EQ(GroupNoise(noise, 1).time(0).mean, 1);
  EXPECT_NEAR(GroupNoise(noise, 1).time(0).variance, 0.01, 1e-15);
  EXPECT_EQ(GroupNoise(noise, 1).mean_time(), 1);
  EXPECT_NEAR(GroupNoise(noise, 8).mean_time(), 1.14236, 1e-6);
}

// A share of 0.01 of the ranks takes a tenth longer, so 1 - 0.99^8 = 7.7% of the groups of 8 do.
TEST(GroupNoise, TakesAsLongAsASlowRank) {
  const machine::Noise noise{.slow_devices = 0.01, .slow_by = 0.1};
  const GroupNoise group(noise, 8);
  EXPECT_NEAR(group.probability_of_slow(0), std::pow(0.99, 8), 1e-12);
  EXPECT_NEAR(group.probability_of_slow(1), 8 * 0.01 * std::pow(0.99, 7), 1e-12);
  EXPECT_EQ(group.time(0).mean, 1);
  EXPECT_EQ(group.time(1).mean, 1.1);
  EXPECT_NEAR(group.mean_time(), 1 + 0.1 * (1 - std::pow(0.99, 8)), 1e-9);
}

// A slow rank that takes 50% longer with a spread of 1% is always the last one; ranks that are hardly slow are like all
// others.
TEST(GroupNoise, OfSlowAndOtherRanksIsBetweenThoseOfOneKind) {
  const machine::Noise apart{.instruction_spread = 0.01, .slow_devices = 0.1, .slow_by = 0.5};
  EXPECT_NEAR(GroupNoise(apart, 4).time(1).mean, 1.5, 1e-9);
  EXPECT_NEAR(GroupNoise(apart, 4).time(1).variance, 0.015 * 0.015, 1e-9);
  const machine::Noise alike{.instruction_spread = 0.1, .slow_devices = 0.1, .slow_by = 1e-9};
  EXPECT_NEAR(GroupNoise(alike, 4).time(1).mean, 1.102938, 1e-6);
}

// 8 ranks that pause each 60 s compute 1.5 s: one of them pauses in 1 - e^-0.2 of these, for 0.05 s.
TEST(GroupNoise, PausesWhenOneOfItsRanksDoes) {
  const machine::Noise noise{.pause_every_seconds = 60, .pause_seconds = 0.05};
  const GroupPauses pauses = GroupNoise(noise, 8).pauses(1.5);
  EXPECT_NEAR(pauses.number, 1 - std::exp(-0.2), 1e-12);
  EXPECT_EQ(pauses.seconds, 0.05);
  EXPECT_EQ(GroupNoise({}, 8).pauses(1.5).number, 0);
}

TEST(LargestNormal, DrawsByItsQuantileFunction) {
  const LargestNormal one(1), eight(8);
  // 0.75 + 1 / 2^33 in the table's parts; the median of the largest of 8 is the quantile at 0.5^(1/8).
  EXPECT_NEAR(one.draw(0xC0000000), normal_quantile(0.75), 1e-9);
  EXPECT_NEAR(eight.draw(0x80000000), normal_quantile(std::pow(0.5, 1.0 / 8)), 1e-9);
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 1'234'567) {
    const double p = (static_cast<double>(bits) + 0.5) * 0x1.0p-32;
    ASSERT_NEAR(eight.draw(static_cast<uint32_t>(bits)), normal_quantile(std::pow(p, 1.0 / 8)), 1e-3) << bits;
    ASSERT_NEAR(one.draw(static_cast<uint32_t>(bits)), normal_quantile(p), 1e-3) << bits;
  }
}

// 400,000 draws: the mean is within 5 standard errors, 5 * 0.611 / sqrt(400,000), of the tabulated one.
TEST(LargestNormal, HasTheMeanOfTheLargest) {
  const LargestNormal eight(8);
  constexpr uint64_t count = 100'000;
  double sum = 0;
  for (uint64_t i = 0; i < count; ++i) {
    for (const uint32_t bits : philox_at(stream_key(1, "test"), i, 0)) sum += eight.draw(bits);
  }
  EXPECT_NEAR(sum / (4 * count), 1.42360, 0.005);
}

}  // namespace
}  // namespace terrace::plan
