// The kernel that adds terms: each thread adds the terms of one element at a time.
#include <algorithm>

#include "gpu_launch.cuh"
#include "terrace/base/gpu/gpu_float.cuh"
#include "terrace/comm/nccl/sum.h"

namespace terrace::comm {
namespace {

constexpr int threads = 256;
constexpr int64_t most_blocks = 4096;

// Integers wrap around.
__device__ uint64_t widen(uint64_t x) { return x; }
__device__ uint32_t widen(uint32_t x) { return x; }
__device__ uint8_t widen(uint8_t x) { return x; }
using terrace::widen;

template <typename T, typename Wide>
__global__ void sum_terms(const T* terms, int64_t num_terms, int64_t count, T* to) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) {
    Wide total = widen(terms[i]);
    for (int64_t term = 1; term < num_terms; ++term) total = static_cast<Wide>(total + widen(terms[term * count + i]));
    to[i] = narrow<T>(total);
  }
}

template <typename T, typename Wide>
void launch(const void* terms, int64_t num_terms, int64_t count, void* to, cudaStream_t stream) {
  const int64_t blocks = std::min(most_blocks, (count + threads - 1) / threads);
  launch_kernel(sum_terms<T, Wide>, dim3(static_cast<unsigned>(blocks)), threads, stream, static_cast<const T*>(terms),
                num_terms, count, static_cast<T*>(to));
}

}  // namespace

void sum_on_gpu(Type type, const void* terms, int64_t num_terms, int64_t count, void* to, cudaStream_t stream) {
  if (count == 0) return;
  switch (type) {
    case Type::fp64:
      return launch<double, double>(terms, num_terms, count, to, stream);
    case Type::fp32:
      return launch<float, float>(terms, num_terms, count, to, stream);
    case Type::bf16:
      return launch<GpuBFloat16, float>(terms, num_terms, count, to, stream);
    case Type::fp16:
      return launch<__half, float>(terms, num_terms, count, to, stream);
    case Type::int64:
      return launch<uint64_t, uint64_t>(terms, num_terms, count, to, stream);
    case Type::int32:
      return launch<uint32_t, uint32_t>(terms, num_terms, count, to, stream);
    case Type::uint8:
      return launch<uint8_t, uint8_t>(terms, num_terms, count, to, stream);
  }
}

}  // namespace terrace::comm
