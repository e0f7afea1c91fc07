// Starts a kernel on a stream of a GPU, of either maker. tests/gpu_emulation has a file of the same name that runs
// kernels on the CPU; the build includes one of the two.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "gpu_language.cuh"

namespace terrace {

// A grid has at most 2^31 - 1 blocks in its first dimension and 65,535 in its second, a block at most 1,024 threads.
// Throws std::runtime_error where the GPU refuses the launch or an earlier kernel has failed.
// `stream` is a GpuStream.
template <typename... Parameters, typename... Arguments>
void launch_kernel(void (*kernel)(Parameters...), dim3 blocks, int64_t threads, void* stream,
                   const Arguments&... arguments) {
  kernel<<<blocks, static_cast<unsigned>(threads), 0, static_cast<GpuStream>(stream)>>>(arguments...);
  if (const char* const error = launch_error()) throw std::runtime_error(std::string("a GPU kernel failed: ") + error);
}

}  // namespace terrace
