// Runs a kernel on the CPU where a GPU compiler would start it on a stream.
#pragma once

#include "gpu_language.cuh"
#include "tests/gpu_emulation/gpu_emulation.h"

namespace terrace {

template <typename... Parameters, typename... Arguments>
void launch_kernel(void (*kernel)(Parameters...), dim3 blocks, int64_t threads, void* /*stream*/,
                   const Arguments&... arguments) {
  gpu_emulation::run(blocks, static_cast<unsigned>(threads), [&] { kernel(arguments...); });
}

}  // namespace terrace
