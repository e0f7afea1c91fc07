// The GPU of a rank: the environment that it needs, its address, what memory is on it, and copies.
#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <string>

#include "gpu_runtime.h"
#include "terrace/comm/nccl/end_marks.h"
#include "terrace/comm/nccl/nccl.h"

namespace terrace::comm {
namespace {

constexpr cudaStream_t default_stream = nullptr;

}  // namespace

bool is_on_gpu(const void* data) {
  if (data == nullptr) return false;
  cudaPointerAttributes attributes = {};
  if (cudaPointerGetAttributes(&attributes, data) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());  // there is no GPU, or HIP does not accept host memory
    return false;
  }
  return is_of_gpu(attributes);
}

void copy_on_gpu(const void* from, void* to, int64_t bytes) {
  check_gpu(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice, default_stream),
            "cudaMemcpyAsync");
}

void copy_and_wait(int gpu, void* to, const void* from, size_t bytes) {
  check_gpu(cudaSetDevice(gpu), "cudaSetDevice");
  check_gpu(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, default_stream), "cudaMemcpyAsync");
  check_gpu(cudaStreamSynchronize(default_stream), "cudaStreamSynchronize");
}

std::string gpu_bus_address(int gpu) {
  std::array<char, 32> address = {};
  check_gpu(cudaDeviceGetPCIBusId(address.data(), static_cast<int>(address.size()), gpu), "cudaDeviceGetPCIBusId");
  std::string text = address.data();
  // The names under /sys are in lower case.
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

void prepare_for_ranks() {
  // NCCL 2.22 and later connect in the first collective unless this is set; earlier ones and RCCL ignore it.
  static_cast<void>(setenv("NCCL_RUNTIME_CONNECT", "0", 0));
  static_cast<void>(setenv("CUDA_MODULE_LOADING", "EAGER", 0));
  // They would override what is chosen for each communicator (communicator.h).
  static_cast<void>(unsetenv("NCCL_COMM_BLOCKING"));
  static_cast<void>(unsetenv("NCCL_COMM_SPLIT_SHARE_RESOURCES"));
}

}  // namespace terrace::comm
