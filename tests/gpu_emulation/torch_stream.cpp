// Stands for the stream of torch: emulated kernels work on tensors of the CPU, at once.
#include "terrace/ops/cuda/torch_stream.h"

#include "terrace/base/error.h"

namespace terrace::ops::cuda {

struct TorchStream::Guard {};

TorchStream::TorchStream(const at::Device& device) : stream_(nullptr) {
  TERRACE_CHECK(device.is_cpu(), "an emulated kernel on {}", device.str());
}

TorchStream::~TorchStream() = default;

}  // namespace terrace::ops::cuda
