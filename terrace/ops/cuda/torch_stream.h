// The device and the stream on which torch runs. Apart from its own source, since compilers for GPUs read little of
// torch; tests/gpu_emulation has another source, without a GPU.
#pragma once

#include <c10/core/Device.h>

#include <memory>

namespace terrace::ops::cuda {

// Makes the device the current one while it lives.
class TorchStream {
 public:
  explicit TorchStream(const at::Device& device);
  ~TorchStream();
  TorchStream(const TorchStream&) = delete;
  TorchStream& operator=(const TorchStream&) = delete;

  void* get() const { return stream_; }  // a stream of the GPU's maker

 private:
  struct Guard;
  std::unique_ptr<Guard> guard_;
  void* stream_;
};

}  // namespace terrace::ops::cuda
