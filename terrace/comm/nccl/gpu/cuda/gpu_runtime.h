// The GPU runtime that the NCCL backend uses on NVIDIA GPUs. gpu/rocm has the same file for AMD GPUs; the build
// includes one of the two.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

inline bool is_of_gpu(const cudaPointerAttributes& memory) {
  return memory.type == cudaMemoryTypeDevice || memory.type == cudaMemoryTypeManaged;
}
