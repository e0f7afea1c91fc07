// Prints the numbers when the process ends.
#include "tests/gpu_emulation/device/activity.h"

#include <cstdio>
#include <cstdlib>

#include "tests/gpu_emulation/device/device_memory.h"

namespace gpu_emulation {
namespace {

void print() {
  std::fprintf(stderr, "emulated GPU: %lld kernels, %lld operations of torch, at most %zu bytes\n",
               static_cast<long long>(activity().kernels), static_cast<long long>(activity().operations),
               device_memory_use().peak_bytes);
}

}  // namespace

Activity& activity() {
  static auto* const one = [] {
    if (std::getenv("EMULATED_GPU_REPORT") != nullptr) std::atexit(print);
    return new Activity;
  }();
  return *one;
}

}  // namespace gpu_emulation
