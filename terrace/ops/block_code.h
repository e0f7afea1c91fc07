// Block quantization: values in blocks of 256, each as a code of one byte or half a byte times the scale of its block.
// The arithmetic of one value, which the kernels for CPUs and GPUs share, so that both give the same bits.
//
// The scale is the largest magnitude of the block over the largest code. If that magnitude is the largest code times a
// power of two, multiples of this power are exact. A block with a NaN or an infinity gets the scale NaN, so that all
// its values are decoded as NaN.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "terrace/base/random.h"

// GCC must inline the functions of one value, so that loops over them are compiled for each vector width.
#define TERRACE_VALUE_INLINE __attribute__((always_inline)) inline constexpr

namespace terrace::ops {

// int8 and int4 are symmetric, and fp8 is e4m3 (OCP 8-bit floating point: 448 is its largest number).
enum class BlockCode { int8, int4, fp8 };

inline constexpr int64_t code_block = 256;  // values; the last block of a part may have fewer

constexpr float largest_code(BlockCode code) {
  return code == BlockCode::int8 ? 127.0f : code == BlockCode::int4 ? 7.0f : 448.0f;
}

constexpr int64_t code_bytes(BlockCode code, int64_t values) {
  return code == BlockCode::int4 ? (values + 1) / 2 : values;
}

// The random numbers of stochastic rounding. A value's 16-bit draw depends on the key, on the three words, on the
// number of the value's block and on its place in the block: thread l of group g (of 128 values) has a Philox block
// with the counter (32 block + 16 g + l, words), of which value 128 g + 16 h + l takes half h % 2 of word h / 2.
struct RoundingDraw {
  PhiloxKey key = {};
  std::array<uint32_t, 3> words = {};
};

inline constexpr int64_t draws_of_philox = 8, philox_of_block = code_block / draws_of_philox;

TERRACE_VALUE_INLINE uint32_t draw_at(const PhiloxBlock& words, int64_t half) {
  return (words[static_cast<size_t>(half / 2)] >> (16 * (half % 2))) & 0xFFFF;
}

// The places of the blocks of `parts` equal parts of values. The payload of a part is the codes of its blocks, followed
// by an fp32 scale for each block. int4: byte i of a block of n values has value i in its lower half and value i +
// ceil(n / 2) in its upper half.
struct BlockLayout {
  BlockCode code;
  int64_t parts, values;  // `values` of one part

  constexpr int64_t blocks_of_part() const { return (values + code_block - 1) / code_block; }
  constexpr int64_t blocks() const { return parts * blocks_of_part(); }
  constexpr int64_t payload_bytes() const { return code_bytes(code, values) + 4 * blocks_of_part(); }

  // The place of a block.
  struct Block {
    int64_t first, count;  // of the values
    int64_t codes, scale;  // bytes from the begin of the payloads
  };
  constexpr Block block_at(int64_t block) const {
    const int64_t part = block / blocks_of_part(), number = block % blocks_of_part(),
                  left = values - number * code_block;
    return {part * values + number * code_block, left < code_block ? left : code_block,
            part * payload_bytes() + number * code_bytes(code, code_block),
            part * payload_bytes() + code_bytes(code, values) + 4 * number};
  }
};

struct BlockScale {
  float scale, inverse;
};

// Computes the scale from the bits of the largest magnitude, which order as the magnitudes do, with NaN above infinity.
// Scales are normal numbers: below them a block loses precision instead, with errors of at most 2^-127.
TERRACE_VALUE_INLINE BlockScale block_scale(BlockCode code, uint32_t largest) {
  if (largest >= 0x7F800000) return {std::bit_cast<float>(uint32_t{0x7FC00000}), 0.0f};
  const float scale = std::bit_cast<float>(largest) / largest_code(code), least = 0x1p-126f;
  const float used = scale > least ? scale : least;
  return {used, 1.0f / used};
}

// Uniform in (-1/2, 1/2), symmetric: added before rounding to nearest, it rounds at random and leaves whole numbers as
// they are.
TERRACE_VALUE_INLINE float dither(uint32_t draw) {
  return static_cast<float>(static_cast<int32_t>(draw)) * 0x1p-16f - (0.5f - 0x1p-17f);
}

// Rounds to nearest, ties to even, for magnitudes below 2^22: adding 1.5 * 2^23 leaves a whole number in the low bits.
TERRACE_VALUE_INLINE uint32_t rounded_bits(float value) {
  constexpr float shift = 12582912.0f;
  return std::bit_cast<uint32_t>(value + shift) - std::bit_cast<uint32_t>(shift);
}

// A NaN becomes `most`.
TERRACE_VALUE_INLINE float clamped(float value, float most) {
  value = value < most ? value : most;
  return value > -most ? value : -most;
}

// The code in the low bits, two's complement for int8 and int4; `draw` counts if `random`.
template <BlockCode code, bool random>
TERRACE_VALUE_INLINE uint32_t encoded(float value, float inverse, uint32_t draw) {
  const float scaled = value * inverse;
  if constexpr (code == BlockCode::fp8) {
    const uint32_t bits = std::bit_cast<uint32_t>(clamped(scaled, largest_code(code))), magnitude = bits & 0x7FFFFFFF;
    // Above 2^-6 the upper bits of an fp32 with another bias; below, a multiple of 2^-9.
    const uint32_t added = random ? draw << 4 | 8 : 0x7FFFF + ((magnitude >> 20) & 1);
    const uint32_t normal = ((magnitude + added) >> 20) - (120 << 3);
    const float steps = std::bit_cast<float>(magnitude) * 512.0f;
    const uint32_t small = rounded_bits(random ? steps + dither(draw) : steps);
    const uint32_t number = magnitude < std::bit_cast<uint32_t>(0x1p-6f) ? small : normal;
    return number == 0 ? 0 : number | ((bits >> 24) & 0x80);  // like int8 and int4, no code is a negative zero
  } else {
    return rounded_bits(clamped(random ? scaled + dither(draw) : scaled, largest_code(code)));
  }
}

template <BlockCode code>
TERRACE_VALUE_INLINE float decoded(uint32_t bits, float scale) {
  if constexpr (code == BlockCode::fp8) {
    const uint32_t magnitude = bits & 0x7F;
    const float small = static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-9f;
    const uint32_t normal = (magnitude + (120 << 3)) << 20;
    const uint32_t number = magnitude < 8 ? std::bit_cast<uint32_t>(small) : normal;
    return std::bit_cast<float>(number | (bits & 0x80) << 24) * scale;
  } else {
    constexpr int unused = code == BlockCode::int4 ? 28 : 24;
    return static_cast<float>(static_cast<int32_t>(bits << unused) >> unused) * scale;
  }
}

}  // namespace terrace::ops
