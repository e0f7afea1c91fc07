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

}  // namespace terrace::ops::cpu
