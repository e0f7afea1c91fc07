// The device and the stream on which torch runs, on GPUs of either maker. tests/gpu_emulation has a file of the same
// name without a GPU; the build includes one of the two.
#pragma once

#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "gpu_language.cuh"

namespace terrace::ops::cuda {

// Makes the device the current one while it lives.
class TorchStream {
 public:
  explicit TorchStream(const at::Device& device)
      : guard_(device), stream_(c10::impl::VirtualGuardImpl(device.type()).getStream(device).native_handle()) {}

  GpuStream get() const { return static_cast<GpuStream>(stream_); }

 private:
  c10::DeviceGuard guard_;
  void* stream_;
};

}  // namespace terrace::ops::cuda
