// The language of kernels for NVIDIA GPUs. gpu/rocm has the same file for AMD GPUs; the build includes one of the two.
#pragma once

#include <cuda_runtime.h>

namespace terrace {

using GpuStream = cudaStream_t;

// The error of the last launch, or nullptr.
inline const char* launch_error() {
  const cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

}  // namespace terrace
