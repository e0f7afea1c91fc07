// The GPU runtime that the NCCL backend uses on AMD GPUs: HIP under CUDA's names. RCCL has the names of NCCL.
#pragma once

#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>
#include <rccl/rccl.h>

#define cudaDeviceSynchronize hipDeviceSynchronize
#define cudaError_t hipError_t
#define cudaDeviceGetPCIBusId hipDeviceGetPCIBusId
#define cudaErrorInvalidValue hipErrorInvalidValue
#define cudaErrorNotReady hipErrorNotReady
#define cudaEvent_t hipEvent_t
#define cudaEventCreateWithFlags hipEventCreateWithFlags
#define cudaEventDestroy hipEventDestroy
#define cudaEventDisableTiming hipEventDisableTiming
#define cudaEventRecord hipEventRecord
#define cudaFree hipFree
#define cudaGetDeviceCount hipGetDeviceCount
#define cudaGetErrorString hipGetErrorString
#define cudaGetLastError hipGetLastError
#define cudaHostAlloc hipHostMalloc
// Coherent, since the host reads it while a stream runs.
#define cudaHostAllocPortable (hipHostMallocPortable | hipHostMallocCoherent)
#define cudaMalloc hipMalloc
#define cudaMemcpyAsync hipMemcpyAsync
#define cudaMemcpyDefault hipMemcpyDefault
#define cudaMemcpyDeviceToDevice hipMemcpyDeviceToDevice
#define cudaMemcpyDeviceToHost hipMemcpyDeviceToHost
#define cudaMemset hipMemset
#define cudaPointerAttributes hipPointerAttribute_t
#define cudaPointerGetAttributes hipPointerGetAttributes
#define cudaSetDevice hipSetDevice
#define cudaStream_t hipStream_t
#define cudaDeviceGetStreamPriorityRange hipDeviceGetStreamPriorityRange
#define cudaStreamCreateWithPriority hipStreamCreateWithPriority
#define cudaStreamDestroy hipStreamDestroy
#define cudaStreamNonBlocking hipStreamNonBlocking
#define cudaStreamQuery hipStreamQuery
#define cudaStreamSynchronize hipStreamSynchronize
#define cudaStreamWaitEvent hipStreamWaitEvent
#define cudaSuccess hipSuccess

// HIP 6 renamed this member.
template <typename Attributes>
bool is_of_gpu(const Attributes& memory) {
  if (memory.isManaged != 0) return true;
  if constexpr (requires { memory.type; }) {
    return memory.type == hipMemoryTypeDevice;
  } else {
    return memory.memoryType == hipMemoryTypeDevice;
  }
}
