// The 16-bit floating-point types as bits, with conversions that compilers can vectorize. They round to nearest even,
// and NaN stays NaN.
#pragma once

#include <bit>
#include <cstdint>

namespace terrace::comm {

struct BFloat16 {
  uint16_t bits;
};

struct Float16 {
  uint16_t bits;
};

inline float widen(BFloat16 x) { return std::bit_cast<float>(uint32_t{x.bits} << 16); }

inline BFloat16 to_bfloat16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  return {static_cast<uint16_t>(x != x ? 0x7fc0U : rounded)};
}

inline float widen(Float16 x) {
  const uint32_t magnitude = (x.bits & 0x7fffU) << 13;
  const uint32_t sign = (x.bits & 0x8000U) << 16;
  // A subnormal is first read as a fraction with an implied leading one, which is then subtracted.
  const float subnormal = std::bit_cast<float>(magnitude + (113U << 23)) - std::bit_cast<float>(113U << 23);
  const uint32_t rebias = magnitude >= (31U << 23) ? (255U - 31U) << 23 : (127U - 15U) << 23;
  const uint32_t normal = magnitude + rebias;
  return std::bit_cast<float>(sign | (magnitude < (1U << 23) ? std::bit_cast<uint32_t>(subnormal) : normal));
}

inline Float16 to_float16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t sign = (bits >> 16) & 0x8000U;
  const uint32_t magnitude = bits & 0x7fffffffU;
  // A subnormal is added to a number whose last place is 2^-24, so that the hardware rounds it there.
  const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
  const uint32_t subnormal = std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(0.5F);
  const uint32_t normal = (magnitude - ((127U - 15U) << 23) + 0xfffU + ((magnitude >> 13) & 1U)) >> 13;
  const uint32_t finite = magnitude < (113U << 23) ? subnormal : normal;
  const uint32_t beyond = magnitude > (255U << 23) ? 0x7e00U : 0x7c00U;
  return {static_cast<uint16_t>(sign | (magnitude < (143U << 23) ? finite : beyond))};
}

}  // namespace terrace::comm
