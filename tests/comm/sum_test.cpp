// Sums of all element types against additions done one by one, and the 16-bit conversions over all their values.
#include "terrace/comm/sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "terrace/comm/float16.h"
#include "terrace/comm/threads/copy.h"

namespace terrace::comm {
namespace {

// The value of the bits by the definition of the formats, without operations on bits of floats.
double value_of(uint16_t bits, int exponent_bias, int fraction_bits) {
  const int exponent = (bits & 0x7fff) >> fraction_bits;
  const double fraction = std::ldexp(bits & ((1 << fraction_bits) - 1), -fraction_bits);
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == (0x7fff >> fraction_bits)) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  }
  return sign *
         (exponent == 0 ? std::ldexp(fraction, 1 - exponent_bias) : std::ldexp(1 + fraction, exponent - exponent_bias));
}

TEST(Float16, WidensEveryValue) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto narrow = static_cast<uint16_t>(bits);
    const double half = value_of(narrow, 15, 10), brain = value_of(narrow, 127, 7);
    const auto same = [](double found, double expected) {
      return std::isnan(expected) ? std::isnan(found)
                                  : found == expected && std::signbit(found) == std::signbit(expected);
    };
    ASSERT_TRUE(same(widen(Float16{narrow}), half)) << bits;
    ASSERT_TRUE(same(widen(BFloat16{narrow}), brain)) << bits;
  }
}

// Numbers between two neighbours round to the lower one below the middle, to the upper one above it, in the middle to
// the even one.
TEST(Float16, RoundsToTheNearestEven) {
  const auto check = [](uint16_t lower, float low, float high, auto&& round) {
    const float middle = low / 2 + high / 2;
    ASSERT_EQ(round(low), lower);
    ASSERT_EQ(round(std::nextafter(middle, low)), lower);
    ASSERT_EQ(round(std::nextafter(middle, high)), lower + 1);
    ASSERT_EQ(round(middle), lower + (lower & 1));
    ASSERT_EQ(round(-low), lower | 0x8000);
  };
  for (uint16_t bits = 0; bits < 0x7bff; ++bits) {
    check(bits, widen(Float16{bits}), widen(Float16{static_cast<uint16_t>(bits + 1)}),
          [](float x) { return to_float16(x).bits; });
  }
  for (uint16_t bits = 0x80; bits < 0x7f7f; ++bits) {
    check(bits, widen(BFloat16{bits}), widen(BFloat16{static_cast<uint16_t>(bits + 1)}),
          [](float x) { return to_bfloat16(x).bits; });
  }
}

TEST(Float16, KeepsInfinityAndNaN) {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(to_float16(65519.0F).bits, 0x7bff);
  EXPECT_EQ(to_float16(65520.0F).bits, 0x7c00);
  EXPECT_EQ(to_float16(-1e30F).bits, 0xfc00);
  EXPECT_EQ(to_float16(infinity).bits, 0x7c00);
  EXPECT_EQ(to_bfloat16(-infinity).bits, 0xff80);
  EXPECT_TRUE(std::isnan(widen(to_float16(nan))));
  EXPECT_TRUE(std::isnan(widen(to_bfloat16(nan))));
  EXPECT_TRUE(std::isnan(widen(to_bfloat16(std::bit_cast<float>(0x7f800001U)))));
}

// 256 + 1 + 1: in bf16 every step would round back to 256; in fp32 the sum is 258, which bf16 holds.
TEST(Sum, SixteenBitTypesRoundOnce) {
  std::vector<uint16_t> a(1001, 0x4380), b(1001, 0x3f80), c(1001, 0x3f80);
  const void* const from[] = {a.data(), b.data(), c.data()};
  void* const to[] = {a.data(), b.data(), c.data()};
  sum_members(Type::bf16, from, to, 1, 999);
  for (const auto* result : {&a, &b, &c}) {
    for (size_t i = 1; i < 1000; ++i) ASSERT_EQ((*result)[i], 0x4381);
  }
  EXPECT_EQ(a.front(), 0x4380);
  EXPECT_EQ(b.back(), 0x3f80);
  // 2048 + 1 + 1 likewise in fp16.
  std::vector<uint16_t> d = {0x6800}, e = {0x3c00}, f = {0x3c00};
  const void* const halves[] = {d.data(), e.data(), f.data()};
  void* const result[] = {f.data()};
  sum_members(Type::fp16, halves, result, 0, 1);
  EXPECT_EQ(f[0], 0x6801);
}

TEST(Sum, IntegersWrapAround) {
  int64_t a = std::numeric_limits<int64_t>::max(), b = 1;
  uint8_t c = 200, d = 100;
  const void* const wide[] = {&a, &b};
  const void* const narrow[] = {&c, &d};
  void* const to_wide[] = {&a};
  void* const to_narrow[] = {&d};
  sum_members(Type::int64, wide, to_wide, 0, 1);
  sum_members(Type::uint8, narrow, to_narrow, 0, 1);
  EXPECT_EQ(a, std::numeric_limits<int64_t>::min());
  EXPECT_EQ(d, 44);
}

// Copies go from and to every position within a cache line, and have sizes around one.
TEST(Copy, CopyPastCachesIsExactAtEveryAlignment) {
  std::vector<char> from(400), expected(400);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<char>(i % 251);
  for (size_t start = 0; start < 64; ++start) {
    for (const size_t bytes : {0, 1, 63, 64, 65, 127, 128, 200}) {
      std::vector<char> to(400, -1);
      expected = to;
      copy_past_caches(to.data() + start, from.data() + 7, bytes);
      std::copy_n(from.begin() + 7, bytes, expected.begin() + static_cast<int64_t>(start));
      ASSERT_EQ(to, expected) << start << " " << bytes;
    }
  }
}

}  // namespace
}  // namespace terrace::comm
