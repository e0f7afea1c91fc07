// The device and the stream on which torch runs. tests/gpu_emulation has a file of the same name without a GPU; the
// build includes one of the two.
#pragma once

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

namespace terrace::ops::cuda {

// Makes the device the current one while it lives.
class TorchStream {
 public:
  explicit TorchStream(const at::Device& device) : guard_(device) {}

  cudaStream_t get() const { return c10::cuda::getCurrentCUDAStream().stream(); }
  // Throws where the launch of a kernel failed.
  void check() const { C10_CUDA_KERNEL_LAUNCH_CHECK(); }

 private:
  c10::cuda::CUDAGuard guard_;
};

}  // namespace terrace::ops::cuda
