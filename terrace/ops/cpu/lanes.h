// Shared by the loops of the CPU kernels: macros for one compiled copy per vector width, conversions that vectorize,
// and sums in a fixed order. Contraction into fused multiply-adds is off, so that every copy gives the same bits.
#pragma once

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <bit>
#include <cstdint>
#include <type_traits>

#include "terrace/base/vector_clones.h"
#include "terrace/ops/element_type.h"

// Placed before a loop over lanes; the compiler would not vectorize a loop that it has unrolled.
#define TERRACE_LANE_LOOP _Pragma("GCC unroll 1")
// Functions that a cloned function calls must be inlined, so that they use the instructions of the clone.
#define TERRACE_INLINE __attribute__((always_inline))

namespace terrace::ops::cpu {

template <typename T>
TERRACE_INLINE inline Wide<T> widen(T value) {
  if constexpr (std::is_same_v<T, c10::BFloat16>) {
    return std::bit_cast<float>(static_cast<uint32_t>(value.x) << 16);
  } else {
    return static_cast<Wide<T>>(value);
  }
}

template <typename T, typename A>
TERRACE_INLINE inline T narrow(A value) {
  if constexpr (std::is_same_v<T, c10::BFloat16>) {
    // Rounds to nearest, ties to even; a NaN stays a NaN.
    const float single = static_cast<float>(value);
    const uint32_t bits = std::bit_cast<uint32_t>(single);
    const uint32_t rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
    return c10::BFloat16(static_cast<uint16_t>(single == single ? rounded : 0x7FC0), c10::BFloat16::from_bits());
  } else {
    return static_cast<T>(value);
  }
}

constexpr int64_t num_lanes = 16;

// Adds the upper half of the lanes to the lower half until one lane is left.
template <typename A>
TERRACE_INLINE inline A sum_of_lanes(A (&lanes)[num_lanes]) {
  for (int64_t width = num_lanes / 2; width > 0; width /= 2) {
    for (int64_t lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
  }
  return lanes[0];
}

// The sum of term(0) .. term(n - 1): sixteen sums, each of every sixteenth term.
template <typename A, typename Term>
TERRACE_INLINE inline A lane_sum(int64_t n, const Term& term) {
  A lanes[num_lanes] = {};
  int64_t i = 0;
  for (; i + num_lanes <= n; i += num_lanes) {
    for (int64_t lane = 0; lane < num_lanes; ++lane) lanes[lane] += term(i + lane);
  }
  for (; i < n; ++i) lanes[i % num_lanes] += term(i);
  return sum_of_lanes(lanes);
}

// e^x to about one ulp for x in [-87, 88], clamped outside: x = n ln 2 + r, a Taylor polynomial in r, and 2^n by its
// bits. The C library's exponential does not vectorize.
TERRACE_INLINE inline float exponential(float x) {
  x = x < -87.0f ? -87.0f : x;
  x = x > 88.0f ? 88.0f : x;
  constexpr float shift = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer, which is then in the low bits
  const float shifted = x * 1.44269504088896341f + shift;
  const float n = shifted - shift;
  // ln 2 as a sum of two numbers; the first has so few bits that its product with n is exact.
  const float r = (x - n * 0.693359375f) - n * -2.12194440054690583e-4f;
  float sum = 1.0f / 5040;
  sum = sum * r + 1.0f / 720;
  sum = sum * r + 1.0f / 120;
  sum = sum * r + 1.0f / 24;
  sum = sum * r + 1.0f / 6;
  sum = sum * r + 0.5f;
  sum = (sum * r) * r + r + 1.0f;
  const uint32_t exponent = std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(shift) + 127;
  return sum * std::bit_cast<float>(exponent << 23);
}

TERRACE_INLINE inline double exponential(double x) { return __builtin_exp(x); }

template <typename A>
TERRACE_INLINE inline A sigmoid(A x) {
  return A{1} / (A{1} + exponential(-x));
}

}  // namespace terrace::ops::cpu
