// Computes SwiGLU, rotary positions and dropout, where one thread computes each output, and copies heads.

#include "terrace/ops/cuda/gpu_kernels.h"
#include "terrace/ops/cuda/launch.cuh"

namespace terrace::ops::cuda {
namespace {

constexpr int64_t element_threads = 256;

template <typename A>
__device__ A sigmoid(A x) {
  return A{1} / (A{1} + exp(-x));
}

template <typename T>
__global__ void swiglu_elements(const T* x, T* y, int64_t n) {
  const int64_t i = blockIdx.x * element_threads + threadIdx.x;
  if (i >= n) return;
  const Wide<T> gate = widen(x[2 * i]), up = widen(x[2 * i + 1]);
  y[i] = narrow<T>(gate * sigmoid(gate) * up);
}

template <typename T>
__global__ void swiglu_backward_elements(const T* dy, const T* x, T* dx, int64_t n) {
  using A = Wide<T>;
  const int64_t i = blockIdx.x * element_threads + threadIdx.x;
  if (i >= n) return;
  const A gate = widen(x[2 * i]), up = widen(x[2 * i + 1]), slope = widen(dy[i]);
  const A share = sigmoid(gate);
  dx[2 * i] = narrow<T>(slope * up * share * (A{1} + gate * (A{1} - share)));
  dx[2 * i + 1] = narrow<T>(slope * gate * share);
}

// One thread block per token. Indices within a token are 32 bits wide, for which division is fast.
template <typename T>
__global__ void rotate_token(Rotation rotation, const T* in, T* out, HeadStrides from, HeadStrides to) {
  using A = Wide<T>;
  const int64_t sample = blockIdx.x / rotation.length, token = blockIdx.x % rotation.length;
  const int64_t position = rotation.positions ? rotation.positions[blockIdx.x] : token;
  TERRACE_GPU_CHECK(position >= 0 && position < rotation.table_positions);
  in += sample * from.sample + token * from.token;
  out += sample * to.sample + token * to.token;
  const unsigned half = rotation.half, heads = rotation.heads, pairs = rotation.groups * heads * half;
  for (unsigned n = threadIdx.x; n < pairs; n += blockDim.x) {
    const unsigned i = n % half, head = n / half, group = head / heads;
    const T* x = in + group * from.group + (head % heads) * from.head;
    T* y = out + group * to.group + (head % heads) * to.head;
    const A first = widen(x[i]), second = widen(x[i + half]);
    const A cosine = rotation.cosines[position * half + i];
    const A sine = static_cast<A>(rotation.direction) * rotation.sines[position * half + i];
    y[i] = narrow<T>(first * cosine - second * sine);
    y[i + half] = narrow<T>(second * cosine + first * sine);
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

// One thread block per row, and one thread for each of its Philox blocks, which serve eight features with a distance of
// sixteen; terrace/ops/cpu/dropout.cpp describes the order.
template <typename T>
__global__ void dropout_row(DropoutRows rows, const T* x, const T* residual, T* out) {
  using A = Wide<T>;
  constexpr int64_t lanes = 16, group_size = 8 * lanes;
  const int64_t row = blockIdx.x, index = row / (rows.planes * rows.length), position = row % rows.length;
  const int64_t own_plane = row / rows.length % rows.planes;
  const int64_t begin = index * rows.sample_stride + own_plane * rows.plane_stride + position * rows.position_stride;
  const auto sample = static_cast<uint64_t>(rows.samples[index]);
  const auto plane = static_cast<uint32_t>(rows.first_plane + own_plane);
  const A scale = A{65536} / static_cast<A>(65536 - rows.threshold);
  const int64_t blocks = (rows.columns + group_size - 1) / group_size * lanes;
  for (int64_t block = threadIdx.x; block < blocks; block += blockDim.x) {
    const PhiloxBlock words =
        philox(rows.key, {static_cast<uint32_t>(block), static_cast<uint32_t>(rows.first_position + position),
                          static_cast<uint32_t>(sample), static_cast<uint32_t>(sample >> 32) | plane << 16});
#pragma unroll
    for (int64_t half = 0; half < 8; ++half) {
      const int64_t feature = block / lanes * group_size + half * lanes + block % lanes;
      if (feature >= rows.columns) break;
      const uint32_t draw = (words[half / 2] >> (16 * (half % 2))) & 0xFFFF;
      const A kept = widen(x[begin + feature]) * (draw >= rows.threshold ? scale : A{0});
      out[begin + feature] = narrow<T>(residual ? kept + widen(residual[begin + feature]) : kept);
    }
  }
}

}  // namespace

void launch_swiglu(GpuArray x, GpuArray y, int64_t n, void* stream) {
  for_gpu_type(x.type, [&]<typename T>(T) {
    launch(swiglu_elements<T>, pieces(n, element_threads), element_threads, stream, elements<const T>(x),
           elements<T>(y), n);
  });
}

void launch_swiglu_backward(GpuArray dy, GpuArray x, GpuArray dx, int64_t n, void* stream) {
  for_gpu_type(x.type, [&]<typename T>(T) {
    launch(swiglu_backward_elements<T>, pieces(n, element_threads), element_threads, stream, elements<const T>(dy),
           elements<const T>(x), elements<T>(dx), n);
  });
}

void launch_rotate(const Rotation& rotation, int64_t samples, GpuArray in, HeadStrides from, GpuArray out,
                   HeadStrides to, void* stream) {
  const int64_t threads = threads_for(int64_t{rotation.groups} * rotation.heads * rotation.half);
  for_gpu_type(in.type, [&]<typename T>(T) {
    launch(rotate_token<T>, static_cast<unsigned>(samples * rotation.length), threads, stream, rotation,
           elements<const T>(in), elements<T>(out), from, to);
  });
}

void launch_copy_heads(const HeadSizes& sizes, int64_t samples, GpuArray in, HeadStrides from, GpuArray out,
                       HeadStrides to, void* stream) {
  for_gpu_type(in.type, [&]<typename T>(T) {
    const auto *source = elements<const T>(in), *target = elements<const T>(out);
    bool packs = are_packs<whole_pack<T>>(sizes.columns, source, target);
    for (const HeadStrides& strides : {from, to}) {
      for (const int64_t stride : {strides.sample, strides.token, strides.group, strides.head}) {
        packs = packs && stride % whole_pack<T> == 0;
      }
    }
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
    launch(dropout_row<T>, static_cast<unsigned>(num_rows), threads_for(pieces(rows.columns, 8)), stream, rows,
           elements<const T>(x), elements<const T>(residual), elements<T>(out));
  });
}

}  // namespace terrace::ops::cuda
