// Computes SwiGLU, rotary positions and dropout, and copies heads. A thread takes packs of 16 bytes at a time where the
// data are whole packs, and else elements.

#include "terrace/ops/cuda/gpu_kernels.h"
#include "terrace/ops/cuda/launch.cuh"

namespace terrace::ops::cuda {
namespace {

constexpr int64_t element_threads = 256;

// Two packs that lie together.
template <int size, typename T>
__device__ void load_two_packs(const T* from, T (&elements)[2 * size]) {
  const GpuPack<T, size> first = load_pack<size>(from), second = load_pack<size>(from + size);
#pragma unroll
  for (int k = 0; k < size; ++k) {
    elements[k] = first.elements[k];
    elements[size + k] = second.elements[k];
  }
}

template <int size, typename T>
__device__ void store_two_packs(const T (&elements)[2 * size], T* to) {
  GpuPack<T, size> first, second;
#pragma unroll
  for (int k = 0; k < size; ++k) {
    first.elements[k] = elements[k];
    second.elements[k] = elements[size + k];
  }
  store_pack(to, first);
  store_pack(to + size, second);
}

template <int n>
bool strides_are_packs(const HeadStrides& from, const HeadStrides& to) {
  for (const HeadStrides& strides : {from, to}) {
    for (const int64_t stride : {strides.sample, strides.token, strides.group, strides.head}) {
      if (stride % n != 0) return false;
    }
  }
  return true;
}

template <typename A>
__device__ A sigmoid(A x) {
  return A{1} / (A{1} + exp(-x));
}

// Each thread computes `size` of the n results, from twice as many elements.
template <typename T, int size>
__global__ void swiglu_elements(const T* x, T* y, int64_t n) {
  const int64_t i = (blockIdx.x * element_threads + threadIdx.x) * size;
  if (i >= n) return;
  T pairs[2 * size];
  load_two_packs<size>(x + 2 * i, pairs);
  GpuPack<T, size> out;
#pragma unroll
  for (int k = 0; k < size; ++k) {
    const Wide<T> gate = widen(pairs[2 * k]), up = widen(pairs[2 * k + 1]);
    out.elements[k] = narrow<T>(gate * sigmoid(gate) * up);
  }
  store_pack(y + i, out);
}

template <typename T, int size>
__global__ void swiglu_backward_elements(const T* dy, const T* x, T* dx, int64_t n) {
  using A = Wide<T>;
  const int64_t i = (blockIdx.x * element_threads + threadIdx.x) * size;
  if (i >= n) return;
  T pairs[2 * size];
  load_two_packs<size>(x + 2 * i, pairs);
  const GpuPack<T, size> slopes = load_pack<size>(dy + i);
#pragma unroll
  for (int k = 0; k < size; ++k) {
    const A gate = widen(pairs[2 * k]), up = widen(pairs[2 * k + 1]), slope = widen(slopes.elements[k]);
    const A share = sigmoid(gate);
    pairs[2 * k] = narrow<T>(slope * up * share * (A{1} + gate * (A{1} - share)));
    pairs[2 * k + 1] = narrow<T>(slope * gate * share);
  }
  store_two_packs<size>(pairs, dx + 2 * i);
}

// One thread block per token. Indices within a token are 32 bits wide, for which division is fast.
template <typename T, int size>
__global__ void rotate_token(Rotation rotation, const T* in, T* out, HeadStrides from, HeadStrides to) {
  using A = Wide<T>;
  const int64_t sample = blockIdx.x / rotation.length, token = blockIdx.x % rotation.length;
  const int64_t position = rotation.positions ? rotation.positions[blockIdx.x] : token;
  TERRACE_GPU_CHECK(position >= 0 && position < rotation.table_positions);
  in += sample * from.sample + token * from.token;
  out += sample * to.sample + token * to.token;
  const unsigned half = rotation.half, of_head = half / size, heads = rotation.heads;
  const unsigned packs = rotation.groups * heads * of_head;
  const auto direction = static_cast<A>(rotation.direction);
  for (unsigned n = threadIdx.x; n < packs; n += blockDim.x) {
    const unsigned i = n % of_head * size, head = n / of_head, group = head / heads;
    const T* x = in + group * from.group + (head % heads) * from.head + i;
    T* y = out + group * to.group + (head % heads) * to.head + i;
    const float *cosines = rotation.cosines + position * half + i, *sines = rotation.sines + position * half + i;
    const GpuPack<T, size> first = load_pack<size>(x), second = load_pack<size>(x + half);
    GpuPack<T, size> out_first, out_second;
#pragma unroll
    for (int k = 0; k < size; ++k) {
      const A a = widen(first.elements[k]), b = widen(second.elements[k]);
      const A cosine = cosines[k], sine = direction * sines[k];
      out_first.elements[k] = narrow<T>(a * cosine - b * sine);
      out_second.elements[k] = narrow<T>(b * cosine + a * sine);
    }
    store_pack(y, out_first);
    store_pack(y + half, out_second);
  }
}

// One thread block per token.
template <typename T, int size>
__global__ void copy_heads_of_token(HeadSizes sizes, const T* in, T* out, HeadStrides from, HeadStrides to) {
  const int64_t sample = blockIdx.x / sizes.length, token = blockIdx.x % sizes.length;
  in += sample * from.sample + token * from.token;
  out += sample * to.sample + token * to.token;
  const auto of_head = static_cast<unsigned>(sizes.columns / size), heads = static_cast<unsigned>(sizes.heads);
  const unsigned packs = static_cast<unsigned>(sizes.groups) * heads * of_head;
  for (unsigned n = threadIdx.x; n < packs; n += blockDim.x) {
    const unsigned i = n % of_head * size, head = n / of_head, group = head / heads;
    store_pack(out + group * to.group + (head % heads) * to.head + i,
               load_pack<size>(in + group * from.group + (head % heads) * from.head + i));
  }
}

constexpr int block_draws = 8;      // of a Philox block, each for one feature
constexpr int64_t draw_lanes = 16;  // Philox blocks that serve a group of 128 features

// Exchanges draws among eight threads: draw h of thread l becomes draw l of thread h.
__device__ inline void transpose_draws(uint32_t (&draws)[block_draws]) {
#pragma unroll
  for (int bit = 1; bit < block_draws; bit *= 2) {
    const bool upper = (threadIdx.x & bit) != 0;
#pragma unroll
    for (int h = 0; h < block_draws; ++h) {
      if ((h & bit) != 0) continue;
      const uint32_t received = exchange_among_32(upper ? draws[h] : draws[h + bit], bit);
      draws[h] = upper ? received : draws[h];
      draws[h + bit] = upper ? draws[h + bit] : received;
    }
  }
}

// One thread block per row, and one thread for each of its Philox blocks, which serve eight features with a distance of
// sixteen; terrace/ops/cpu/dropout.cpp describes the order. The threads then exchange draws, so that each has those of
// eight features that lie together.
template <typename T, int size>
__global__ void dropout_row(DropoutRows rows, const T* x, const T* residual, T* out) {
  using A = Wide<T>;
  constexpr int64_t group_size = block_draws * draw_lanes;
  // 32 bits wide, for which division is fast, as the number of blocks is.
  const auto planes = static_cast<unsigned>(rows.planes), length = static_cast<unsigned>(rows.length);
  const unsigned row = blockIdx.x, index = row / (planes * length), position = row % length;
  const unsigned own_plane = row / length % planes;
  const int64_t begin = index * rows.sample_stride + own_plane * rows.plane_stride + position * rows.position_stride;
  const auto sample = static_cast<uint64_t>(rows.samples[index]);
  const auto plane = static_cast<uint32_t>(rows.first_plane + own_plane);
  const auto place = static_cast<uint32_t>(rows.positions.of(position));
  const A scale = A{65536} / static_cast<A>(65536 - rows.threshold);
  const int64_t groups = (rows.columns + group_size - 1) / group_size;
  // The two groups of 32 threads, of which the second may be past the end, stay together.
  for (int64_t block = threadIdx.x; block / draw_lanes / 2 * 2 < groups; block += blockDim.x) {
    const PhiloxBlock words = philox(rows.key, {static_cast<uint32_t>(block), place, static_cast<uint32_t>(sample),
                                                static_cast<uint32_t>(sample >> 32) | plane << 16});
    uint32_t draws[block_draws];
#pragma unroll
    for (int h = 0; h < block_draws; ++h) draws[h] = (words[h / 2] >> (16 * (h % 2))) & 0xFFFF;
    transpose_draws(draws);
    const int64_t lane = block % draw_lanes;
    const int64_t first =
        block / draw_lanes * group_size + lane % block_draws * draw_lanes + lane / block_draws * block_draws;
#pragma unroll
    for (int k = 0; k < block_draws; k += size) {
      const int64_t feature = first + k;
      if (feature >= rows.columns) break;
      const GpuPack<T, size> own = load_pack<size>(x + begin + feature);
      A kept[size];
#pragma unroll
      for (int e = 0; e < size; ++e) kept[e] = widen(own.elements[e]) * (draws[k + e] >= rows.threshold ? scale : A{0});
      if (residual) {
        const GpuPack<T, size> added = load_pack<size>(residual + begin + feature);
#pragma unroll
        for (int e = 0; e < size; ++e) kept[e] += widen(added.elements[e]);
      }
      GpuPack<T, size> written;
#pragma unroll
      for (int e = 0; e < size; ++e) written.elements[e] = narrow<T>(kept[e]);
      store_pack(out + begin + feature, written);
    }
  }
}

}  // namespace

void launch_swiglu(GpuArray x, GpuArray y, int64_t n, void* stream) {
  for_gpu_type(x.type, [&]<typename T>(T) {
    const auto *from = elements<const T>(x), *to = elements<const T>(y);
    with_pack_size<T>(are_packs<whole_pack<T>>(n, from, to), [&]<int size>(std::integral_constant<int, size>) {
      launch(swiglu_elements<T, size>, pieces(n, element_threads * size), element_threads, stream, from, elements<T>(y),
             n);
    });
  });
}

void launch_swiglu_backward(GpuArray dy, GpuArray x, GpuArray dx, int64_t n, void* stream) {
  for_gpu_type(x.type, [&]<typename T>(T) {
    const auto *slopes = elements<const T>(dy), *from = elements<const T>(x), *to = elements<const T>(dx);
    with_pack_size<T>(are_packs<whole_pack<T>>(n, slopes, from, to), [&]<int size>(std::integral_constant<int, size>) {
      launch(swiglu_backward_elements<T, size>, pieces(n, element_threads * size), element_threads, stream, slopes,
             from, elements<T>(dx), n);
    });
  });
}

void launch_rotate(const Rotation& rotation, int64_t samples, GpuArray in, HeadStrides from, GpuArray out,
                   HeadStrides to, void* stream) {
  for_gpu_type(in.type, [&]<typename T>(T) {
    const auto *source = elements<const T>(in), *target = elements<const T>(out);
    const bool packs =
        are_packs<whole_pack<T>>(rotation.half, source, target) && strides_are_packs<whole_pack<T>>(from, to);
    with_pack_size<T>(packs, [&]<int size>(std::integral_constant<int, size>) {
      const int64_t threads = threads_for(int64_t{rotation.groups} * rotation.heads * (rotation.half / size));
      launch(rotate_token<T, size>, static_cast<unsigned>(samples * rotation.length), threads, stream, rotation, source,
             elements<T>(out), from, to);
    });
  });
}

void launch_copy_heads(const HeadSizes& sizes, int64_t samples, GpuArray in, HeadStrides from, GpuArray out,
                       HeadStrides to, void* stream) {
  for_gpu_type(in.type, [&]<typename T>(T) {
    const auto *source = elements<const T>(in), *target = elements<const T>(out);
    const bool packs =
        are_packs<whole_pack<T>>(sizes.columns, source, target) && strides_are_packs<whole_pack<T>>(from, to);
    with_pack_size<T>(packs, [&]<int size>(std::integral_constant<int, size>) {
      launch(copy_heads_of_token<T, size>, static_cast<unsigned>(samples * sizes.length),
             threads_for(sizes.groups * sizes.heads * (sizes.columns / size)), stream, sizes, source, elements<T>(out),
             from, to);
    });
  });
}

void launch_dropout(const DropoutRows& rows, int64_t num_rows, GpuArray x, GpuArray residual, GpuArray out,
                    void* stream) {
  for_gpu_type(x.type, [&]<typename T>(T) {
    const auto *from = elements<const T>(x), *added = elements<const T>(residual), *to = elements<const T>(out);
    bool packs = are_packs<whole_pack<T>>(rows.columns, from, added, to);
    for (const int64_t stride : {rows.sample_stride, rows.plane_stride, rows.position_stride}) {
      packs = packs && stride % whole_pack<T> == 0;
    }
    with_pack_size<T>(packs, [&]<int size>(std::integral_constant<int, size>) {
      launch(dropout_row<T, size>, static_cast<unsigned>(num_rows), threads_for(pieces(rows.columns, block_draws)),
             stream, rows, from, added, elements<T>(out));
    });
  });
}

}  // namespace terrace::ops::cuda
