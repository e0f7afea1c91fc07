// How wide the vector registers of this processor are.
#pragma once

namespace terrace::ops::cpu {

#if defined(__x86_64__) && defined(__GNUC__)
inline bool has_registers_of_32_bytes() {
  static const bool has = __builtin_cpu_supports("avx2");
  return has;
}

inline bool has_registers_of_64_bytes() {
  static const bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return has;
}
#endif

}  // namespace terrace::ops::cpu
