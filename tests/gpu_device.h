// The device of tests that compare kernels for GPUs with those for the CPU: a GPU, or in tests/gpu_emulation the CPU,
// which runs the kernels' sources in several orders of warps.
#pragma once

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>

#include <cstdint>

#ifdef TERRACE_GPU_EMULATION
#include "tests/gpu_emulation/gpu_emulation.h"
#endif

namespace terrace::gpu_device {

#ifdef TERRACE_GPU_EMULATION
constexpr at::DeviceType device = at::kCPU;
constexpr uint64_t orders = 3;
inline bool is_there() { return true; }
inline void choose_order(uint64_t seed) { gpu_emulation::options().seed = seed; }
#else
constexpr at::DeviceType device = at::kCUDA;
constexpr uint64_t orders = 1;
inline bool is_there() { return at::globalContext().hasCUDA() && at::detail::getCUDAHooks().deviceCount() > 0; }
inline void choose_order(uint64_t) {}
#endif

}  // namespace terrace::gpu_device
