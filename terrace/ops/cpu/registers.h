// Finds what the vector registers of this processor can do. As in torch, no wider registers are used than the
// environment's ATEN_CPU_CAPABILITY says (avx512, avx2 or default).
#pragma once

#include <ATen/Version.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#endif

namespace terrace::ops::cpu {

#if defined(__x86_64__) && defined(__GNUC__)
inline bool has_registers_of_64_bytes() {
  static const bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                          at::get_cpu_capability() == "AVX512";
  return has;
}

inline bool has_registers_of_32_bytes() {
  static const bool has =
      __builtin_cpu_supports("avx2") && (at::get_cpu_capability() == "AVX512" || at::get_cpu_capability() == "AVX2");
  return has;
}

// Whether the registers of 32 bytes come with the instructions that multiply and add, and convert fp16.
inline bool has_kernels_of_32_bytes() {
  static const bool has =
      has_registers_of_32_bytes() && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  return has;
}
#endif

// Whether the processor multiplies bf16 in tiles (AMX), which torch uses and our kernels do not.
inline bool has_bf16_tiles() {
#if defined(__x86_64__) && defined(__GNUC__)
  static const bool has = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    constexpr unsigned amx_bf16 = 1U << 22;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & amx_bf16) != 0;
  }();
  return has;
#else
  return false;
#endif
}

}  // namespace terrace::ops::cpu
