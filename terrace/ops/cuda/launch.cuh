// Shared by the CUDA kernels: launches, and sums over a thread block in a fixed order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "gpu_launch.cuh"
#include "terrace/base/gpu/gpu_float.cuh"
#include "terrace/ops/computing_type.h"

namespace terrace::ops::cuda {

// Starts a kernel on the stream; does nothing for an empty grid, which CUDA reports as an error.
template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), dim3 blocks, int64_t threads, void* stream, const Arguments&... arguments) {
  if (blocks.x == 0 || blocks.y == 0) return;
  launch_kernel(kernel, blocks, threads, stream, arguments...);
}

template <typename T>
T* elements(GpuArray array) {
  return static_cast<T*>(array.data);
}

constexpr int64_t warp_threads = 32;

// Calls body(std::integral_constant of the elements that a thread takes at a time): a pack's where the data are whole
// packs, else 1.
template <typename T, typename Body>
void with_pack_size(bool whole_packs, const Body& body) {
  if (whole_packs) {
    body(std::integral_constant<int, whole_pack<T>>());
  } else {
    body(std::integral_constant<int, 1>());
  }
}

inline unsigned pieces(int64_t n, int64_t size) { return static_cast<unsigned>((n + size - 1) / size); }

// The number of threads of a block with n items, for kernels whose result does not depend on the number.
inline int64_t threads_for(int64_t n) {
  return std::clamp<int64_t>(pieces(n, warp_threads) * warp_threads, warp_threads, 256);
}

// Combines the values of all threads of a block: within each 32 threads first, then over these in order. All threads
// must call it; all get the result.
template <int threads, typename A, typename Combine>
__device__ A block_reduce(A value, const Combine& combine) {
  static_assert(threads % warp_threads == 0);
  __shared__ A of_warp[threads / warp_threads];
  for (int distance = warp_threads / 2; distance > 0; distance /= 2) {
    value = combine(value, exchange_among_32(value, distance));
  }
  __syncthreads();  // Threads may still be reading the result of an earlier call.
  if (threadIdx.x % warp_threads == 0) of_warp[threadIdx.x / warp_threads] = value;
  __syncthreads();
  value = of_warp[0];
  for (int warp = 1; warp < threads / warp_threads; ++warp) value = combine(value, of_warp[warp]);
  return value;
}

// Sums the values of all threads of a block, in the order of block_reduce(). The number of threads, a multiple of 32,
// is known when the block is started. All threads must call it; all get the result.
template <typename A>
__device__ A sum_of_block(A value) {
  __shared__ A of_warp[1024 / warp_threads];
  for (int distance = warp_threads / 2; distance > 0; distance /= 2) value += exchange_among_32(value, distance);
  __syncthreads();  // Threads may still be reading the result of an earlier call.
  if (threadIdx.x % warp_threads == 0) of_warp[threadIdx.x / warp_threads] = value;
  __syncthreads();
  value = of_warp[0];
  for (unsigned warp = 1; warp < blockDim.x / warp_threads; ++warp) value += of_warp[warp];
  return value;
}

template <int threads, typename A>
__device__ A block_sum(A value) {
  return block_reduce<threads>(value, [](A a, A b) { return a + b; });
}

}  // namespace terrace::ops::cuda
