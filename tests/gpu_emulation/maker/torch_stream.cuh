// Stands for the stream of torch: emulated kernels work on tensors of the CPU, at once.
#pragma once

#include <c10/core/Device.h>

#include "terrace/base/error.h"

namespace terrace::ops::cuda {

class TorchStream {
 public:
  explicit TorchStream(const at::Device& device) {
    TERRACE_CHECK(device.is_cpu(), "emulated kernel on {}", device.str());
  }

  void* get() const { return nullptr; }
};

}  // namespace terrace::ops::cuda
