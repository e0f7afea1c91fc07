// Shared by the CUDA kernels: launches, conversions, and sums over a thread block in a fixed order.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>

#include "gpu_launch.cuh"
#include "terrace/ops/cuda/torch_stream.h"
#include "terrace/ops/element_type.h"

namespace terrace::ops::cuda {

// Starts a kernel on the current stream of the device; does nothing for an empty grid, which CUDA reports as an error.
template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), dim3 blocks, int64_t threads, const at::Device& device,
            const Arguments&... arguments) {
  if (blocks.x == 0 || blocks.y == 0) return;
  const TorchStream stream(device);
  launch_kernel(kernel, blocks, threads, stream.get(), arguments...);
}

constexpr int64_t warp_threads = 32;

inline unsigned pieces(int64_t n, int64_t size) { return static_cast<unsigned>((n + size - 1) / size); }

// The number of threads of a block with n items, for kernels whose result does not depend on the number.
inline int64_t threads_for(int64_t n) {
  return std::clamp<int64_t>(pieces(n, warp_threads) * warp_threads, warp_threads, 256);
}

template <typename A>
const A* pointer_or_null(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.const_data_ptr<A>() : nullptr;
}

template <typename A>
A* mutable_pointer_or_null(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.mutable_data_ptr<A>() : nullptr;
}

template <typename T>
__device__ Wide<T> widen(T value) {
  return static_cast<Wide<T>>(value);
}

template <typename T, typename A>
__device__ T narrow(A value) {
  return static_cast<T>(value);
}

// Combines the values of all threads of a block: within each warp first, then over the warps in order. All threads must
// call it; all get the result.
template <int threads, typename A, typename Combine>
__device__ A block_reduce(A value, const Combine& combine) {
  static_assert(threads % warp_threads == 0);
  __shared__ A of_warp[threads / warp_threads];
  for (int distance = warp_threads / 2; distance > 0; distance /= 2) {
    value = combine(value, __shfl_xor_sync(0xFFFFFFFF, value, distance));
  }
  __syncthreads();  // Threads may still be reading the result of an earlier call.
  if (threadIdx.x % warp_threads == 0) of_warp[threadIdx.x / warp_threads] = value;
  __syncthreads();
  value = of_warp[0];
  for (int warp = 1; warp < threads / warp_threads; ++warp) value = combine(value, of_warp[warp]);
  return value;
}

template <int threads, typename A>
__device__ A block_sum(A value) {
  return block_reduce<threads>(value, [](A a, A b) { return a + b; });
}

}  // namespace terrace::ops::cuda
