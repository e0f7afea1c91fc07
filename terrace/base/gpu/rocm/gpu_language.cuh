// The language of kernels for AMD GPUs.
#pragma once

#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>

#include <cstdint>
#include <cstdio>

namespace terrace {

using GpuStream = hipStream_t;

// The error of the last launch, or nullptr.
inline const char* launch_error() {
  const hipError_t error = hipGetLastError();
  return error == hipSuccess ? nullptr : hipGetErrorString(error);
}

// The value of the thread whose place in its 32 neighbours differs in the bits of `distance`: sums have the order of
// NVIDIA's warps of 32 threads in wavefronts of 64, too.
template <typename A>
__device__ A exchange_among_32(A value, int distance) {
  return __shfl_xor(value, distance, 32);
}

// Ends the kernel with an error, which every later call to the GPU reports.
__device__ inline void gpu_fail(const char* condition) {
  printf("a GPU kernel stopped: not %s\n", condition);
  abort();
}

}  // namespace terrace

#define TERRACE_GPU_CHECK(condition) \
  if (!(condition)) ::terrace::gpu_fail(#condition)
