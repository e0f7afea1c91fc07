// Buffers of every element type from small integers, which all types hold exactly.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "terrace/comm/call.h"

namespace terrace::comm {

inline constexpr Type all_types[] = {Type::fp64,  Type::fp32,  Type::bf16, Type::fp16,
                                     Type::int64, Type::int32, Type::uint8};

// 0 to 12, so that sums over 8 members stay below 256, which bf16 and uint8 hold exactly.
inline int64_t small_value(int64_t member, int64_t element) { return (7 * member + 3 * element + 1) % 13; }

// The bits of a whole number below 2048, from its exponent and fraction.
inline uint16_t half_bits(int64_t value, int exponent_bias, int fraction_bits) {
  if (value == 0) return 0;
  int exponent = 0;
  const double fraction = std::frexp(static_cast<double>(value), &exponent);  // in [0.5, 1)
  const auto kept = static_cast<int64_t>(std::ldexp(2 * fraction - 1, fraction_bits));
  return static_cast<uint16_t>(((exponent - 1 + exponent_bias) << fraction_bits) + kept);
}

// Elements value(0), value(1), ..
template <typename Value>
std::vector<char> elements(Type type, int64_t count, const Value& value) {
  std::vector<char> bytes(static_cast<size_t>(count * size_of(type)));
  const auto fill = [&]<typename T>(T, const auto& convert) {
    for (int64_t i = 0; i < count; ++i) {
      const T element = convert(value(i));
      std::memcpy(bytes.data() + i * static_cast<int64_t>(sizeof element), &element, sizeof element);
    }
  };
  switch (type) {
    case Type::fp64:
      fill(0.0, [](int64_t x) { return static_cast<double>(x); });
      break;
    case Type::fp32:
      fill(0.0F, [](int64_t x) { return static_cast<float>(x); });
      break;
    case Type::bf16:
      fill(uint16_t{}, [](int64_t x) { return half_bits(x, 127, 7); });
      break;
    case Type::fp16:
      fill(uint16_t{}, [](int64_t x) { return half_bits(x, 15, 10); });
      break;
    case Type::int64:
      fill(int64_t{}, [](int64_t x) { return x; });
      break;
    case Type::int32:
      fill(int32_t{}, [](int64_t x) { return static_cast<int32_t>(x); });
      break;
    case Type::uint8:
      fill(uint8_t{}, [](int64_t x) { return static_cast<uint8_t>(x); });
      break;
  }
  return bytes;
}

}  // namespace terrace::comm
