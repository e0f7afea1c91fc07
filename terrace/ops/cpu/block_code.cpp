// Block quantization on the CPU, a block of 256 values at a time.
#include "terrace/ops/block_code.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstring>

#include "terrace/ops/cpu/kernels.h"
#include "terrace/ops/cpu/lanes.h"
#include "terrace/ops/cpu/philox_lanes.h"
#include "terrace/ops/element_type.h"

namespace terrace::ops::cpu {
namespace {

constexpr int64_t block_grain = 128;  // blocks that are worth a thread

// Fills a whole block, with zeros behind the values.
template <typename T>
TERRACE_INLINE inline void load_block(const T* from, int64_t count, float (&values)[code_block]) {
  if (count == code_block) {
    for (int64_t i = 0; i < code_block; ++i) values[i] = static_cast<float>(widen(from[i]));
  } else {
    for (int64_t i = 0; i < code_block; ++i) values[i] = i < count ? static_cast<float>(widen(from[i])) : 0.0f;
  }
}

TERRACE_INLINE inline uint32_t largest_magnitude(const float (&values)[code_block]) {
  int32_t lanes[num_lanes] = {};
  for (int64_t i = 0; i < code_block; i += num_lanes) {
    TERRACE_LANE_LOOP
    for (int64_t lane = 0; lane < num_lanes; ++lane) {
      const int32_t magnitude = std::bit_cast<int32_t>(values[i + lane]) & 0x7FFFFFFF;
      lanes[lane] = lanes[lane] > magnitude ? lanes[lane] : magnitude;
    }
  }
  return static_cast<uint32_t>(*std::max_element(lanes, lanes + num_lanes));
}

template <BlockCode code, bool random>
TERRACE_INLINE inline void encode_values(const float (&values)[code_block], float inverse, const RoundingDraw& draw,
                                         uint32_t counter, uint8_t (&codes)[code_block]) {
  if constexpr (random) {
    constexpr int64_t group = draws_of_philox * num_lanes;
    for (int64_t begin = 0; begin < code_block; begin += group, counter += num_lanes) {
      uint32_t words[4][num_lanes];
      philox_lanes<false>(draw.key, {counter, draw.words[0], draw.words[1], draw.words[2]}, words);
      for (int64_t half = 0; half < draws_of_philox; ++half) {
        TERRACE_LANE_LOOP
        for (int64_t lane = 0; lane < num_lanes; ++lane) {
          const int64_t i = begin + half * num_lanes + lane;
          const uint32_t number = (words[half / 2][lane] >> (16 * (half % 2))) & 0xFFFF;
          codes[i] = static_cast<uint8_t>(encoded<code, true>(values[i], inverse, number));
        }
      }
    }
  } else {
    TERRACE_LANE_LOOP
    for (int64_t i = 0; i < code_block; ++i)
      codes[i] = static_cast<uint8_t>(encoded<code, false>(values[i], inverse, 0));
  }
}

// `payloads` is the begin of all payloads. A function per block: a clone costs one indirect call.
template <typename T, BlockCode code, bool random>
TERRACE_VECTOR_CLONES void encode_block(const T* from, const BlockLayout::Block& block, const RoundingDraw& draw,
                                        uint32_t counter, uint8_t* payloads) {
  float values[code_block];
  load_block(from + block.first, block.count, values);
  const BlockScale scale = block_scale(code, largest_magnitude(values));
  uint8_t codes[code_block];
  encode_values<code, random>(values, scale.inverse, draw, counter, codes);
  uint8_t* const to = payloads + block.codes;
  if constexpr (code == BlockCode::int4) {
    const int64_t half = (block.count + 1) / 2;
    if (half == code_block / 2) {
      for (int64_t i = 0; i < code_block / 2; ++i) {
        to[i] = static_cast<uint8_t>((codes[i] & 15) | codes[i + code_block / 2] << 4);
      }
    } else {
      for (int64_t i = 0; i < half; ++i) to[i] = static_cast<uint8_t>((codes[i] & 15) | codes[i + half] << 4);
    }
  } else {
    std::memcpy(to, codes, static_cast<size_t>(block.count));
  }
  std::memcpy(payloads + block.scale, &scale.scale, sizeof scale.scale);
}

template <typename T, bool adds>
TERRACE_INLINE inline void store(T& into, float value) {
  if constexpr (adds) {
    into += value;
  } else {
    into = narrow<T>(value);
  }
}

template <typename T, BlockCode code, bool adds>
TERRACE_VECTOR_CLONES void decode_block(const uint8_t* payloads, const BlockLayout::Block& block, T* into) {
  float scale;
  std::memcpy(&scale, payloads + block.scale, sizeof scale);
  const uint8_t* const from = payloads + block.codes;
  T* const to = into + block.first;
  if constexpr (code == BlockCode::int4) {
    const int64_t half = (block.count + 1) / 2;
    for (int64_t i = 0; i < half; ++i) store<T, adds>(to[i], decoded<code>(from[i], scale));
    for (int64_t i = half; i < block.count; ++i) {
      store<T, adds>(to[i], decoded<code>(static_cast<uint32_t>(from[i - half]) >> 4, scale));
    }
  } else {
    for (int64_t i = 0; i < block.count; ++i) store<T, adds>(to[i], decoded<code>(from[i], scale));
  }
}

// Calls a generic lambda with the code as a constant.
template <typename Body>
void for_code(BlockCode code, const Body& body) {
  switch (code) {
    case BlockCode::int8:
      return body(std::integral_constant<BlockCode, BlockCode::int8>{});
    case BlockCode::int4:
      return body(std::integral_constant<BlockCode, BlockCode::int4>{});
    case BlockCode::fp8:
      return body(std::integral_constant<BlockCode, BlockCode::fp8>{});
  }
}

}  // namespace

void encode_blocks(const BlockCoding& coding, const at::Tensor& values, const at::Tensor& payloads) {
  const BlockLayout layout = block_layout(coding, values, payloads);
  uint8_t* const to = payloads.mutable_data_ptr<uint8_t>();
  for_type(values.scalar_type(), [&]<typename T>(T) {
    const T* const from = values.const_data_ptr<T>();
    for_code(coding.code, [&](auto code) {
      const RoundingDraw draw = coding.draw.value_or(RoundingDraw{});
      const auto encode = coding.draw ? encode_block<T, code.value, true> : encode_block<T, code.value, false>;
      at::parallel_for(0, layout.blocks(), block_grain, [&](int64_t begin, int64_t end) {
        for (int64_t block = begin; block < end; ++block) {
          encode(from, layout.block_at(block), draw, static_cast<uint32_t>(block * philox_of_block), to);
        }
      });
    });
  });
}

void decode_blocks(const BlockCoding& coding, const at::Tensor& payloads, const at::Tensor& into) {
  const BlockLayout layout = block_layout(coding, into, payloads);
  const uint8_t* const from = payloads.const_data_ptr<uint8_t>();
  for_type(into.scalar_type(), [&]<typename T>(T) {
    T* const to = into.mutable_data_ptr<T>();
    for_code(coding.code, [&](auto code) {
      auto decode = decode_block<T, code.value, false>;
      if constexpr (std::is_same_v<T, float>) {
        if (coding.adds) decode = decode_block<T, code.value, true>;
      }
      at::parallel_for(0, layout.blocks(), block_grain, [&](int64_t begin, int64_t end) {
        for (int64_t block = begin; block < end; ++block) decode(from, layout.block_at(block), to);
      });
    });
  });
}

}  // namespace terrace::ops::cpu
