// The language of kernels for NVIDIA GPUs. gpu/rocm has the same file for AMD GPUs, tests/gpu_emulation for the CPU;
// the build includes one of the three.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>

namespace terrace {

using GpuStream = cudaStream_t;

// The error of the last launch, or nullptr.
inline const char* launch_error() {
  const cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

// The value of the thread whose place in its 32 neighbours differs in the bits of `distance`. All 32 must call it.
template <typename A>
__device__ A exchange_among_32(A value, int distance) {
  return __shfl_xor_sync(0xFFFFFFFF, value, distance);
}

// Ends the kernel with an error, which every later call to the GPU reports.
__device__ inline void gpu_fail(const char* condition) {
  printf("a GPU kernel stopped: not %s\n", condition);
  __trap();
}

}  // namespace terrace

#define TERRACE_GPU_CHECK(condition) \
  if (!(condition)) ::terrace::gpu_fail(#condition)
