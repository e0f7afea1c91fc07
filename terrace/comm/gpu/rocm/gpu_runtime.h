// What the NCCL backend takes from the GPU's maker, on AMD's: HIP under CUDA's names. RCCL keeps those of NCCL.
#pragma once

#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>
#include <rccl/rccl.h>

#define cudaDeviceSynchronize hipDeviceSynchronize
#define cudaError_t hipError_t
#define cudaErrorInvalidValue hipErrorInvalidValue
#define cudaErrorNotReady hipErrorNotReady
#define cudaEvent_t hipEvent_t
#define cudaEventCreateWithFlags hipEventCreateWithFlags
#define cudaEventDestroy hipEventDestroy
#define cudaEventDisableTiming hipEventDisableTiming
#define cudaEventQuery hipEventQuery
#define cudaEventRecord hipEventRecord
#define cudaFree hipFree
#define cudaGetErrorString hipGetErrorString
#define cudaGetLastError hipGetLastError
#define cudaMalloc hipMalloc
#define cudaMemcpyAsync hipMemcpyAsync
#define cudaMemcpyDeviceToDevice hipMemcpyDeviceToDevice
#define cudaPointerAttributes hipPointerAttribute_t
#define cudaPointerGetAttributes hipPointerGetAttributes
#define cudaSetDevice hipSetDevice
#define cudaStream_t hipStream_t
#define cudaStreamCreateWithFlags hipStreamCreateWithFlags
#define cudaStreamDestroy hipStreamDestroy
#define cudaStreamNonBlocking hipStreamNonBlocking
#define cudaStreamWaitEvent hipStreamWaitEvent
#define cudaSuccess hipSuccess

inline bool is_of_gpu(const hipPointerAttribute_t& memory) {
#if HIP_VERSION_MAJOR < 6  // which renamed the member
  return memory.memoryType == hipMemoryTypeDevice || memory.isManaged != 0;
#else
  return memory.type == hipMemoryTypeDevice || memory.type == hipMemoryTypeManaged;
#endif
}
