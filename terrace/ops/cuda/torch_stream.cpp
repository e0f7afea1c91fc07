// Asks torch for its current stream, on GPUs of either maker.
#include "terrace/ops/cuda/torch_stream.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace terrace::ops::cuda {

struct TorchStream::Guard {
  explicit Guard(const at::Device& device) : guard(device) {}
  c10::DeviceGuard guard;
};

TorchStream::TorchStream(const at::Device& device)
    : guard_(std::make_unique<Guard>(device)),
      stream_(c10::impl::VirtualGuardImpl(device.type()).getStream(device).native_handle()) {}

TorchStream::~TorchStream() = default;

}  // namespace terrace::ops::cuda
