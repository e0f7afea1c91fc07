// Defines on the CPU what kernels need of a GPU's maker.
#pragma once

#include <c10/util/Half.h>

#include "tests/gpu_emulation/gpu_emulation.h"

using cudaStream_t = void*;

struct __half {
  c10::Half value;
};

inline float __half2float(__half x) { return x.value; }
inline __half __float2half_rn(float x) { return {x}; }

namespace terrace {

template <typename A>
A exchange_among_32(A value, int distance) {
  return gpu_emulation::shuffle_xor(value, static_cast<unsigned>(distance));
}

inline void gpu_fail(const char* condition) { gpu_emulation::fail(condition); }

}  // namespace terrace

#define TERRACE_GPU_CHECK(condition) \
  if (!(condition)) ::terrace::gpu_fail(#condition)
