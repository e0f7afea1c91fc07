// What the NCCL backend takes from the GPU's maker, on NVIDIA's. The folder gpu/rocm has the same for AMD's; the build
// includes one of the two.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

inline bool is_of_gpu(const cudaPointerAttributes& memory) {
  return memory.type == cudaMemoryTypeDevice || memory.type == cudaMemoryTypeManaged;
}
