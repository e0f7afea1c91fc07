// The language of kernels for AMD GPUs.
#pragma once

#include <hip/hip_runtime.h>

namespace terrace {

using GpuStream = hipStream_t;

// The error of the last launch, or nullptr.
inline const char* launch_error() {
  const hipError_t error = hipGetLastError();
  return error == hipSuccess ? nullptr : hipGetErrorString(error);
}

}  // namespace terrace
