// Exact sums have no rounding error but the last one, whatever the order of their terms.
#include "terrace/optim/exact_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace terrace::optim {
namespace {

ExactSum sum_of(const std::vector<double>& terms) {
  ExactSum sum = {};
  for (const double term : terms) add_exactly(term, sum.data());
  return sum;
}

// Squares of numbers with 24 bits, as those of fp32, of many sizes.
std::vector<double> some_squares(size_t count) {
  std::mt19937_64 random(7);
  std::vector<double> squares;
  for (size_t i = 0; i < count; ++i) {
    const double x = std::ldexp(static_cast<double>(random() >> 40), static_cast<int>(random() % 240) - 149);
    squares.push_back(x * x);
  }
  return squares;
}

constexpr double smallest = 0x1p-298, largest = 0x1p256 * (1 - 0x1p-24) * (1 - 0x1p-24);

TEST(ExactSum, KeepsASingleTerm) {
  EXPECT_EQ(value_of({}), 0.0);
  EXPECT_EQ(value_of(sum_of({0.0})), 0.0);
  for (const double term : some_squares(1000)) EXPECT_EQ(value_of(sum_of({term})), term);
  for (const double term : {smallest, largest, 1024 * largest, 1.0}) EXPECT_EQ(value_of(sum_of({term})), term);
}

// 3 x has one rounding in fp64 and so has the sum of three copies; the same for 12,345 copies.
TEST(ExactSum, RoundsSumsOfEqualTermsOnce) {
  for (const double term : some_squares(200)) {
    EXPECT_EQ(value_of(sum_of({term, term, term})), 3 * term);
    EXPECT_EQ(value_of(sum_of(std::vector<double>(12345, term))), 12345 * term);
  }
}

// Sums round to nearest, ties to even; the smallest term decides a tie from far below.
TEST(ExactSum, RoundsToNearest) {
  const double half_of_last = 0x1p-53;
  EXPECT_EQ(value_of(sum_of({1.0, half_of_last})), 1.0);
  EXPECT_EQ(value_of(sum_of({1.0, half_of_last, smallest})), 1.0 + 0x1p-52);
  EXPECT_EQ(value_of(sum_of({1.0 + 0x1p-52, half_of_last})), 1.0 + 0x1p-51);
  EXPECT_EQ(value_of(sum_of({0x1p200, smallest})), 0x1p200);
  EXPECT_EQ(value_of(sum_of({0x1p200, 0x1p147, smallest})), 0x1p200 + 0x1p148);
}

TEST(ExactSum, DoesNotDependOnOrderAndDivision) {
  std::vector<double> terms = some_squares(3000);
  const double all = value_of(sum_of(terms));
  std::mt19937_64 random(11);
  for (int round = 0; round < 5; ++round) {
    std::shuffle(terms.begin(), terms.end(), random);
    const auto part = static_cast<std::ptrdiff_t>(random() % terms.size());
    ExactSum sum = sum_of({terms.begin(), terms.begin() + part}), rest = sum_of({terms.begin() + part, terms.end()});
    if (round % 2 == 0) carry(rest);
    add(rest, sum);
    carry(sum);
    EXPECT_EQ(value_of(sum), all);
  }
}

TEST(ExactSum, SaysWhereATermIsNotFinite) {
  const double infinite = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(is_finite(sum_of({1.0, largest})));
  EXPECT_FALSE(is_finite(sum_of({1.0, infinite})));
  EXPECT_EQ(value_of(sum_of({1.0, infinite})), infinite);
  EXPECT_TRUE(std::isnan(value_of(sum_of({infinite, std::nan(""), 1.0}))));
}

}  // namespace
}  // namespace terrace::optim
