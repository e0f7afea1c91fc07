// Block quantization: 32 threads encode a block of 256 values, eight each, and one thread decodes each value.

#include <cstring>

#include "terrace/ops/block_code.h"
#include "terrace/ops/cuda/gpu_kernels.h"
#include "terrace/ops/cuda/launch.cuh"

namespace terrace::ops::cuda {
namespace {

constexpr int64_t blocks_together = 4;
constexpr int64_t decode_threads = 256;

// Thread t of 32 has the Philox block and the values of lane t % 16 of group t / 16 (RoundingDraw).
template <typename T, BlockCode code, bool random>
__global__ void encode_values(BlockLayout layout, RoundingDraw draw, const T* values, uint8_t* payloads) {
  __shared__ uint8_t codes_of_blocks[blocks_together][code_block];
  const int64_t thread = threadIdx.x % warp_threads, block = blockIdx.x * blocks_together + threadIdx.x / warp_threads;
  uint8_t* const codes = codes_of_blocks[threadIdx.x / warp_threads];
  BlockLayout::Block of_values = layout.block_at(block);
  if (block >= layout.blocks()) of_values.count = 0;
  const int64_t first = thread / 16 * 128 + thread % 16;
  float own[draws_of_philox];
  uint32_t largest = 0;
  for (int64_t half = 0; half < draws_of_philox; ++half) {
    const int64_t i = first + 16 * half;
    own[half] = i < of_values.count ? static_cast<float>(widen(values[of_values.first + i])) : 0.0f;
    largest = max(largest, __float_as_uint(own[half]) & 0x7FFFFFFF);
  }
  for (int distance = warp_threads / 2; distance > 0; distance /= 2) {
    largest = max(largest, exchange_among_32(largest, distance));
  }
  const BlockScale scale = block_scale(code, largest);
  PhiloxBlock words = {};
  if (random) {
    words = philox(draw.key, {static_cast<uint32_t>(block * philox_of_block + thread), draw.words[0], draw.words[1],
                              draw.words[2]});
  }
  for (int64_t half = 0; half < draws_of_philox; ++half) {
    codes[first + 16 * half] =
        static_cast<uint8_t>(encoded<code, random>(own[half], scale.inverse, draw_at(words, half)));
  }
  __syncthreads();
  const int64_t half = (of_values.count + 1) / 2;
  for (int64_t i = thread; i < code_bytes(code, of_values.count); i += warp_threads) {
    payloads[of_values.codes + i] =
        code == BlockCode::int4 ? static_cast<uint8_t>((codes[i] & 15) | codes[i + half] << 4) : codes[i];
  }
  // A payload of an odd size does not begin at a multiple of four bytes.
  if (thread == 0 && of_values.count > 0) memcpy(payloads + of_values.scale, &scale.scale, sizeof scale.scale);
}

template <typename T, BlockCode code, bool adds>
__global__ void decode_values(BlockLayout layout, const uint8_t* payloads, T* into) {
  const int64_t number = blockIdx.x * decode_threads + threadIdx.x;
  if (number >= layout.parts * layout.values) return;
  const int64_t part = number / layout.values, block = number % layout.values / code_block;
  const BlockLayout::Block of_values = layout.block_at(part * layout.blocks_of_part() + block);
  float scale;
  memcpy(&scale, payloads + of_values.scale, sizeof scale);
  const int64_t i = number - of_values.first, half = (of_values.count + 1) / 2;
  const uint8_t* const codes = payloads + of_values.codes;
  uint32_t bits = codes[code == BlockCode::int4 && i >= half ? i - half : i];
  if (code == BlockCode::int4 && i >= half) bits >>= 4;
  const float value = decoded<code>(bits, scale);
  into[number] = narrow<T>(adds ? static_cast<float>(widen(into[number])) + value : value);
}

template <typename T, BlockCode code>
void encode_with(const BlockLayout& layout, const RoundingDraw* draw, GpuArray values, uint8_t* payloads,
                 void* stream) {
  const auto kernel = draw != nullptr ? encode_values<T, code, true> : encode_values<T, code, false>;
  launch(kernel, pieces(layout.blocks(), blocks_together), blocks_together * warp_threads, stream, layout,
         draw != nullptr ? *draw : RoundingDraw{}, elements<const T>(values), payloads);
}

template <typename T, BlockCode code>
void decode_with(const BlockLayout& layout, bool adds, const uint8_t* payloads, GpuArray into, void* stream) {
  const auto kernel = adds ? decode_values<T, code, true> : decode_values<T, code, false>;
  launch(kernel, pieces(layout.parts * layout.values, decode_threads), decode_threads, stream, layout, payloads,
         elements<T>(into));
}

}  // namespace

void launch_encode_blocks(const BlockLayout& layout, const RoundingDraw* draw, GpuArray values, uint8_t* payloads,
                          void* stream) {
  for_gpu_type(values.type, [&]<typename T>(T) {
    switch (layout.code) {
      case BlockCode::int8:
        return encode_with<T, BlockCode::int8>(layout, draw, values, payloads, stream);
      case BlockCode::int4:
        return encode_with<T, BlockCode::int4>(layout, draw, values, payloads, stream);
      case BlockCode::fp8:
        return encode_with<T, BlockCode::fp8>(layout, draw, values, payloads, stream);
    }
  });
}

void launch_decode_blocks(const BlockLayout& layout, bool adds, const uint8_t* payloads, GpuArray into, void* stream) {
  for_gpu_type(into.type, [&]<typename T>(T) {
    switch (layout.code) {
      case BlockCode::int8:
        return decode_with<T, BlockCode::int8>(layout, adds, payloads, into, stream);
      case BlockCode::int4:
        return decode_with<T, BlockCode::int4>(layout, adds, payloads, into, stream);
      case BlockCode::fp8:
        return decode_with<T, BlockCode::fp8>(layout, adds, payloads, into, stream);
    }
  });
}

}  // namespace terrace::ops::cuda
