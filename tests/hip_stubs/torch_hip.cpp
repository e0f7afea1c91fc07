// Stands in for libtorch_hip.so, torch's library for AMD's GPUs, where the wheel for ROCm cannot be had. It defines no
// symbol that terrace names, as terrace names none of that library; like it, it registers itself with torch when it is
// loaded, and answers there how many GPUs the machine has (aten/src/ATen/cuda/detail/CUDAHooks.cpp of torch 2.11). It
// has no kernel and no allocator for GPUs.

// torch for ROCm is built with this definition: the interface has other functions then.
#define USE_ROCM
#include <ATen/detail/CUDAHooksInterface.h>
#include <hip/hip_runtime_api.h>

namespace {

struct HooksOfStub final : at::CUDAHooksInterface {
  explicit HooksOfStub(at::CUDAHooksArgs) {}
  bool hasROCM() const override { return true; }
  bool hasCUDA() const override { return deviceCount() > 0; }
  at::DeviceIndex deviceCount() const override {
    int count = 0;
    return hipGetDeviceCount(&count) == hipSuccess ? static_cast<at::DeviceIndex>(count) : at::DeviceIndex{0};
  }
};

}  // namespace

using at::CUDAHooksRegistry;
using at::RegistererCUDAHooksRegistry;
REGISTER_CUDA_HOOKS(HooksOfStub)
