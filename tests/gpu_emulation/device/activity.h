// Counts what the emulated GPU of this process has done.
#pragma once

#include <atomic>
#include <cstdint>

namespace gpu_emulation {

struct Activity {
  std::atomic<int64_t> kernels = 0;     // of this project
  std::atomic<int64_t> operations = 0;  // of torch
};

// The counts of this process. Where EMULATED_GPU_REPORT is set, the process prints them at its end, by which tests see
// that it computed here.
Activity& activity();

}  // namespace gpu_emulation
