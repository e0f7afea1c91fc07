// Tests the sampler's probabilities against closed forms, and its draws against the exact probabilities.
#include "terrace/generate/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "terrace/base/error.h"
#include "terrace/base/random.h"

namespace terrace::generate {
namespace {

std::vector<float> random_logits(int64_t size, uint64_t seed) {
  std::vector<float> logits;
  for (int64_t i = 0; i < size; ++i) {
    const PhiloxBlock bits = philox_at({7, 7}, static_cast<uint64_t>(i), seed);
    logits.push_back(static_cast<float>(8.0 * unit_uniform(bits[0], bits[1]) - 4.0));
  }
  return logits;
}

std::map<int64_t, double> probabilities(std::span<const float> logits, const Sampling& sampling) {
  std::map<int64_t, double> found;
  for (const Candidate& candidate : candidates(logits, sampling)) found[candidate.token] = candidate.probability;
  return found;
}

std::map<int64_t, double> softmax(std::span<const float> logits, double temperature) {
  std::map<int64_t, double> exact;
  double sum = 0;
  for (size_t i = 0; i < logits.size(); ++i) sum += exact[i] = std::exp(static_cast<double>(logits[i]) / temperature);
  for (auto& [token, probability] : exact) probability /= sum;
  return exact;
}

// Exponents, sum and quotient are each rounded a few times: 1e-12 is far above these errors and far below a real one.
constexpr double rounding = 1e-12;

TEST(Sampler, UnfilteredProbabilitiesAreTheSoftmax) {
  for (double temperature : {0.25, 1.0, 3.0}) {
    const std::vector<float> logits = random_logits(57, 1);
    const auto found = probabilities(logits, {.temperature = temperature});
    const auto exact = softmax(logits, temperature);
    ASSERT_EQ(found.size(), exact.size());
    for (const auto& [token, probability] : exact) EXPECT_NEAR(found.at(token), probability, rounding);
  }
}

TEST(Sampler, LargeLogitsDoNotOverflow) {
  const std::vector<float> logits = {3e38f, 3e38f, -3e38f};
  EXPECT_EQ(probabilities(logits, {}), (std::map<int64_t, double>{{0, 0.5}, {1, 0.5}, {2, 0.0}}));
}

TEST(Sampler, TemperatureZeroTakesTheLargestLogitWhateverElseIsSet) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const std::vector<float> logits = random_logits(101, seed);
    const int64_t largest = std::ranges::max_element(logits) - logits.begin();
    EXPECT_EQ(choose(logits, {.temperature = 0.0, .top_k = 5, .top_p = 0.5, .seed = seed}, 3, 4), largest);
  }
  EXPECT_EQ(choose(std::vector<float>{1, 2, 2}, {.temperature = 0.0}, 0, 0), 1);
}

TEST(Sampler, TopKKeepsTheKLargestInTheirProportions) {
  const std::vector<float> logits = random_logits(40, 2);
  std::vector<float> sorted = logits;
  std::ranges::sort(sorted, std::greater<>());
  const auto exact = softmax(logits, 1.0);
  for (int64_t k : {1, 2, 7, 39, 40, 41}) {
    const auto found = probabilities(logits, {.top_k = k});
    ASSERT_EQ(found.size(), static_cast<size_t>(std::min<int64_t>(k, 40)));
    double kept = 0;
    for (const auto& [token, _] : found) kept += exact.at(token);
    for (const auto& [token, probability] : found) {
      EXPECT_GE(logits[token], sorted[found.size() - 1]);
      EXPECT_NEAR(probability, exact.at(token) / kept, rounding);
    }
  }
}

TEST(Sampler, EqualLogitsCountInTheOrderOfTheirTokens) {
  const std::vector<float> logits = {1, 1, 1, 1, 2};
  EXPECT_EQ(probabilities(logits, {.top_k = 3}).size(), 3u);
  EXPECT_TRUE(probabilities(logits, {.top_k = 3}).contains(0));
  EXPECT_TRUE(probabilities(logits, {.top_k = 3}).contains(1));
}

TEST(Sampler, TopPKeepsTheSmallestSetThatReachesIt) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const std::vector<float> logits = random_logits(64, seed);
    const auto exact = softmax(logits, 1.0);
    for (double p : {0.01, 0.3, 0.9, 0.999}) {
      const auto found = probabilities(logits, {.top_p = p});
      double kept = 0, least = 1, largest_left = 0;
      for (const auto& [token, probability] : exact) {
        if (found.contains(token)) {
          kept += probability;
          least = std::min(least, probability);
        } else {
          largest_left = std::max(largest_left, probability);
        }
      }
      EXPECT_GE(kept, p - rounding);
      EXPECT_LT(kept - least, p);
      EXPECT_GE(least, largest_left);
      for (const auto& [token, probability] : found) EXPECT_NEAR(probability, exact.at(token) / kept, rounding);
    }
  }
}

// Worked out by hand: of 1/2, 1/4, 1/8, 1/8 the first three are 4/7, 2/7, 1/7; two of them reach 3/5, in proportion 2
// to 1.
TEST(Sampler, TopPCountsTheTokensThatTopKKept) {
  const float unit = std::log(2.0f);
  const auto found = probabilities(std::vector<float>{unit, 0, -unit, -unit}, {.top_k = 3, .top_p = 0.6});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_NEAR(found.at(0), 2.0 / 3.0, 1e-7);  // the logits are rounded to fp32
  EXPECT_NEAR(found.at(1), 1.0 / 3.0, 1e-7);
}

TEST(Sampler, DrawsFollowTheProbabilities) {
  const std::vector<float> logits = {0.0f, 1.0f, 2.0f, -1.0f, 0.5f, 0.5f, -2.0f, 1.5f, 3.0f};
  constexpr int draws = 100'000;
  for (const Sampling& sampling : {Sampling{}, Sampling{.temperature = 2.0, .top_k = 6, .seed = 9},
                                   Sampling{.temperature = 0.7, .top_p = 0.9, .seed = 5}}) {
    const auto exact = probabilities(logits, sampling);
    std::map<int64_t, int> counts;
    for (int position = 0; position < draws; ++position) ++counts[choose(logits, sampling, position % 3, position)];
    double chi_square = 0;
    for (const auto& [token, count] : counts) ASSERT_TRUE(exact.contains(token));
    for (const auto& [token, probability] : exact) {
      const double expected = draws * probability;
      chi_square += (counts[token] - expected) * (counts[token] - expected) / expected;
    }
    // With at most 8 degrees of freedom, chi-squared exceeds 43 by chance once in a million times.
    EXPECT_LT(chi_square, 43.0);
  }
}

TEST(Sampler, ADrawIsAFunctionOfSeedSampleAndPosition) {
  const std::vector<float> logits(1000, 0.0f);
  const int64_t drawn = choose(logits, {.seed = 1}, 2, 3);
  EXPECT_EQ(choose(logits, {.seed = 1}, 2, 3), drawn);
  const std::set<int64_t> others = {drawn, choose(logits, {.seed = 2}, 2, 3), choose(logits, {.seed = 1}, 1, 3),
                                    choose(logits, {.seed = 1}, 2, 4)};
  EXPECT_EQ(others.size(), 4u);
}

TEST(Sampler, RefusesBrokenLogitsAndOptions) {
  const std::vector<float> broken = {0, std::numeric_limits<float>::quiet_NaN()};
  EXPECT_THROW(candidates(broken, {}), UserError);
  EXPECT_THROW(candidates(std::vector<float>{INFINITY, 0}, {.temperature = 0}), UserError);
  EXPECT_THROW(check({.temperature = -0.1}), UserError);
  EXPECT_THROW(check({.temperature = NAN}), UserError);
  EXPECT_THROW(check({.top_k = -1}), UserError);
  EXPECT_THROW(check({.top_p = 0.0}), UserError);
  EXPECT_THROW(check({.top_p = 1.1}), UserError);
  EXPECT_THROW(check({.top_p = NAN}), UserError);
  check({.temperature = 0, .top_k = 0, .top_p = 1.0});
}

}  // namespace
}  // namespace terrace::generate
