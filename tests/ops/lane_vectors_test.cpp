// Tests vectors of sixteen numbers: every width of registers must give the same bits, and the exponential be exact.
#include "terrace/ops/cpu/lane_vectors.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "terrace/base/random.h"

#if defined(__x86_64__) && defined(__GNUC__)

namespace terrace::ops::cpu {
namespace {

// Results of a loop over n elements: e^x, x with 0 behind the end, their sum and the largest x.
template <typename T>
struct Computed {
  std::vector<T> exponentials, products;
  Wide<T> sum = 0;
  Wide<T> top = 0;
};

template <int bytes, typename T>
TERRACE_INLINE inline Computed<T> compute(const std::vector<T>& x) {
  using A = Wide<T>;
  const auto n = static_cast<int64_t>(x.size());
  Computed<T> result{std::vector<T>(x.size() + 1, T(7)), std::vector<T>(x.size() + 1, T(7))};
  Lanes<A, bytes> top(-std::numeric_limits<A>::infinity());
  for_groups<2>(n, [&]<int vectors>(int64_t i, Vectors<vectors>, auto count) TERRACE_INLINE {
    Lanes<A, bytes> values[vectors];
    for (int v = 0; v < vectors; ++v) values[v] = load_lanes<bytes>(x.data() + i + v * num_lanes, count);
    for (const auto& value : values) top = larger(top, value);
    exponentials(values);
    for (int v = 0; v < vectors; ++v) {
      store_lanes(result.exponentials.data() + i + v * num_lanes, values[v], count);
    }
  });
  result.sum = vector_sum<A, bytes>(n, [&](int64_t i, auto count) TERRACE_INLINE {
    const auto value = load_lanes<bytes>(x.data() + i, count);
    const auto product = value * (A{1} - value) / A{3} + A{2};  // not 0 where nothing was loaded
    store_lanes(result.products.data() + i, product, count);
    return product;
  });
  A tops[num_lanes];
  store_lanes(tops, top);
  result.top = tops[0];
  for (A lane : tops) result.top = larger(result.top, lane);
  return result;
}

template <typename T>
std::vector<T> numbers(int64_t n) {
  std::vector<T> result;
  for (int64_t i = 0; i < n; ++i) {
    const PhiloxBlock drawn = philox_at({5, 7}, static_cast<uint64_t>(i), static_cast<uint64_t>(n));
    result.push_back(T(static_cast<Wide<T>>(unit_uniform(drawn[0], drawn[1]) * 24 - 16)));
  }
  return result;
}

template <typename T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

template <typename T>
class LaneVectors : public ::testing::Test {};
using Types = ::testing::Types<float, c10::BFloat16, c10::Half, double>;
TYPED_TEST_SUITE(LaneVectors, Types);

TYPED_TEST(LaneVectors, GiveTheSameBitsInRegistersOfEveryWidth) {
  const auto of = [&](const auto& x) TERRACE_INLINE {
    return [&]<int bytes>(RegisterBytes<bytes>) TERRACE_INLINE { return compute<bytes>(x); };
  };
  for (int64_t n : {1, 2, 7, 15, 16, 17, 31, 32, 33, 47, 95, 96, 111, 300}) {
    const auto x = numbers<TypeParam>(n);
    const Computed<TypeParam> expected = with_16_bytes(of(x));
    const auto check = [&](const Computed<TypeParam>& other) {
      EXPECT_TRUE(same_bits(other.exponentials, expected.exponentials)) << n;
      EXPECT_TRUE(same_bits(other.products, expected.products)) << n;
      EXPECT_EQ(other.sum, expected.sum) << n;
      EXPECT_EQ(other.top, expected.top) << n;
    };
    if (has_registers_of_32_bytes()) check(with_32_bytes(of(x)));
    if (has_registers_of_64_bytes()) check(with_64_bytes(of(x)));
  }
}

// Every number of fp16, and numbers of fp32 near the middle of two of fp16, infinite ones and NaN among them.
TEST(LaneVectorsOfFp16, AreConvertedAsOneNumberIs) {
  const auto check = [](const auto& with) {
    for (uint32_t first = 0; first < 0x10000; first += num_lanes) {
      c10::Half halves[num_lanes], rounded[num_lanes];
      float wide[num_lanes];
      for (uint32_t i = 0; i < num_lanes; ++i) {
        halves[i] = c10::Half(static_cast<uint16_t>(first + i), c10::Half::from_bits());
      }
      with([&]<int bytes>(RegisterBytes<bytes>) TERRACE_INLINE { store_lanes(wide, load_lanes<bytes>(halves)); });
      for (uint32_t i = 0; i < num_lanes; ++i) {
        const auto expected = static_cast<float>(halves[i]);
        ASSERT_TRUE(std::isnan(expected) ? std::isnan(wide[i]) : wide[i] == expected) << first + i;
      }
      for (const uint32_t rest : {0x0FFFU, 0x1000U, 0x1001U}) {
        for (float& number : wide) number = std::bit_cast<float>(std::bit_cast<uint32_t>(number) + rest);
        with([&]<int bytes>(RegisterBytes<bytes>) TERRACE_INLINE { store_lanes(rounded, load_lanes<bytes>(wide)); });
        for (uint32_t i = 0; i < num_lanes; ++i) ASSERT_EQ(rounded[i].x, c10::Half(wide[i]).x) << wide[i];
      }
    }
  };
  check([](const auto& body) { with_16_bytes(body); });
  if (has_registers_of_32_bytes()) check([](const auto& body) { with_32_bytes(body); });
  if (has_registers_of_64_bytes()) check([](const auto& body) { with_64_bytes(body); });
}

TYPED_TEST(LaneVectors, ComputeWhatALoopOverElementsDoes) {
  using A = Wide<TypeParam>;
  for (int64_t n : {1, 15, 16, 17, 40, 300}) {
    const auto x = numbers<TypeParam>(n);
    const Computed<TypeParam> all =
        with_widest_registers([&]<int bytes>(RegisterBytes<bytes>) TERRACE_INLINE { return compute<bytes>(x); });
    double sum = 0;
    A top = n % num_lanes == 0 ? -100 : 0;  // the lanes behind the last element are 0
    for (size_t i = 0; i < x.size(); ++i) {
      const A value = widen(x[i]), product = value * (A{1} - value) / A{3} + A{2};
      EXPECT_EQ(A{widen(all.products[i])}, A{widen(narrow<TypeParam>(product))});
      const double power = std::exp(static_cast<double>(value));
      // Rounding to the type, and one unit in the last place of fp32.
      const double unit = std::is_same_v<TypeParam, c10::BFloat16> ? 0x1p-8 : sizeof(TypeParam) == 2 ? 0x1p-11 : 0;
      EXPECT_NEAR(static_cast<double>(widen(all.exponentials[i])), power,
                  power * (unit + 0x1p-23) + 0x1p-24 * (unit > 0));
      sum += static_cast<double>(product);
      top = std::max(top, value);
    }
    EXPECT_NEAR(static_cast<double>(all.sum), sum, 1e-5 * static_cast<double>(n) * std::abs(sum));
    EXPECT_EQ(all.top, top);
    // The element behind the last one is not touched.
    EXPECT_EQ(A{widen(all.exponentials.back())}, A{7});
    EXPECT_EQ(A{widen(all.products.back())}, A{7});
  }
}

TEST(LaneVectorsOfBf16, KeepWhatIsNotANumber) {
  const float none = std::numeric_limits<float>::quiet_NaN(), infinite = std::numeric_limits<float>::infinity();
  std::vector<float> x(40, 1.0f);
  x[3] = none;
  x[20] = infinite;
  x[39] = -infinite;
  std::vector<c10::BFloat16> rounded(x.size());
  with_widest_registers([&]<int bytes>(RegisterBytes<bytes>) TERRACE_INLINE {
    for_vectors(40, [&](int64_t i, auto count) TERRACE_INLINE {
      store_lanes(rounded.data() + i, load_lanes<bytes>(x.data() + i, count), count);
    });
    return 0;
  });
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(rounded[i].x, narrow<c10::BFloat16>(x[i]).x) << i;
  }
  EXPECT_TRUE(std::isnan(widen(rounded[3])));
}

TEST(LaneVectorsOfFp32, ClampTheExponential) {
  std::vector<float> x = {-1e30f, -87.0f, 0.0f, 88.0f, 1e30f, std::numeric_limits<float>::quiet_NaN()};
  const Computed<float> all =
      with_widest_registers([&]<int bytes>(RegisterBytes<bytes>) TERRACE_INLINE { return compute<bytes>(x); });
  EXPECT_EQ(all.exponentials[0], all.exponentials[1]);
  EXPECT_EQ(all.exponentials[2], 1.0f);
  EXPECT_EQ(all.exponentials[3], all.exponentials[4]);
  EXPECT_TRUE(std::isnan(all.exponentials[5]));
}

}  // namespace
}  // namespace terrace::ops::cpu

#endif
