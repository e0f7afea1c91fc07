// Shared by all kernels for x86-64 processors with AVX-512: operations on vectors of fp32 and bf16, and the check
// whether the processor has the instructions.
//
// Operands of products consist of 32-bit words along the dimension of the sum. A word is one element of fp32, or two
// neighbouring elements of bf16, which one instruction multiplies and adds in fp32. So both types use the same loops.
#pragma once

#include <c10/core/ScalarType.h>
#include <c10/util/BFloat16.h>
#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "terrace/ops/cpu/registers.h"

// Only kernels and functions that are inlined into them are compiled for these processors. Flags for the whole file
// would also apply to inline functions of shared headers, which run on every processor. Only bf16 uses AVX-512 BF16.
#define TERRACE_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,prfchw")))
#define TERRACE_AVX512_INLINE TERRACE_AVX512 __attribute__((always_inline)) inline

namespace terrace::ops::cpu {

// Whether this processor has the instructions for kernels of the type.
inline bool has_avx512(c10::ScalarType type) {
  static const bool bf16 = has_registers_of_64_bytes() && __builtin_cpu_supports("avx512bf16");
  return type == c10::ScalarType::Float ? has_registers_of_64_bytes() : type == c10::ScalarType::BFloat16 && bf16;
}

constexpr int64_t lanes = 16;  // words in a vector

template <typename T>
constexpr int64_t word_elements = sizeof(float) / sizeof(T);

// A mask of the first `count` lanes; count is not negative.
inline __mmask16 first_lanes(int64_t count) {
  return static_cast<__mmask16>(count >= lanes ? 0xFFFF : (1U << count) - 1U);
}

// None if the count is negative.
inline __mmask16 first_lanes_or_none(int64_t count) { return first_lanes(std::max<int64_t>(count, 0)); }

template <typename T>
TERRACE_AVX512_INLINE __m512 multiply_add(__m512 a, __m512 b, __m512 sum) {
  if constexpr (std::is_same_v<T, float>) {
    return _mm512_fmadd_ps(a, b, sum);
  } else {
    return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
  }
}

// Load sixteen elements as fp32, all or those of the mask, and store them, rounded to nearest with ties to even.
TERRACE_AVX512_INLINE __m512 widened(__m256i bits) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

template <typename T>
TERRACE_AVX512_INLINE __m512 load_wide(const T* from) {
  if constexpr (std::is_same_v<T, float>) {
    return _mm512_loadu_ps(from);
  } else {
    return widened(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  }
}

template <typename T>
TERRACE_AVX512_INLINE __m512 load_wide(const T* from, __mmask16 mask) {
  if constexpr (std::is_same_v<T, float>) {
    return _mm512_maskz_loadu_ps(mask, from);
  } else {
    return widened(_mm256_maskz_loadu_epi16(mask, from));
  }
}

template <typename T>
TERRACE_AVX512_INLINE void store_narrow(T* to, __m512 value) {
  if constexpr (std::is_same_v<T, float>) {
    _mm512_storeu_ps(to, value);
  } else {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), (__m256i)_mm512_cvtneps_pbh(value));
  }
}

template <typename T>
TERRACE_AVX512_INLINE void store_narrow(T* to, __m512 value, __mmask16 mask) {
  if constexpr (std::is_same_v<T, float>) {
    _mm512_mask_storeu_ps(to, mask, value);
  } else {
    _mm256_mask_storeu_epi16(to, mask, (__m256i)_mm512_cvtneps_pbh(value));
  }
}

// The values as they are after store_narrow() and load_wide().
template <typename T>
TERRACE_AVX512_INLINE __m512 rounded(__m512 value) {
  if constexpr (std::is_same_v<T, float>) {
    return value;
  } else {
    return widened((__m256i)_mm512_cvtneps_pbh(value));
  }
}

// Words of bf16 pairs, whose low half is from the first row.
TERRACE_AVX512_INLINE __m512i interleaved(__m256i first, __m256i second) {
  return _mm512_or_si512(_mm512_cvtepu16_epi32(first), _mm512_slli_epi32(_mm512_cvtepu16_epi32(second), 16));
}

// Rounds two rows of fp32 to words of bf16 pairs, whose low half is from the first row.
TERRACE_AVX512_INLINE __m512 paired(__m512 first, __m512 second) {
  const __m512i both = (__m512i)_mm512_cvtne2ps_pbh(second, first);
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21,
                                         5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return _mm512_castsi512_ps(_mm512_permutexvar_epi16(order, both));
}

// Transposes a square of sixteen vectors.
TERRACE_AVX512_INLINE void transpose(__m512 (&x)[lanes]) {
  __m512 y[lanes];
#pragma GCC unroll 16
  for (int i = 0; i < 16; i += 2) {
    y[i] = _mm512_unpacklo_ps(x[i], x[i + 1]);
    y[i + 1] = _mm512_unpackhi_ps(x[i], x[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      const __m512d low = _mm512_castps_pd(y[i + j]), high = _mm512_castps_pd(y[i + 2 + j]);
      x[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(low, high));
      x[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low, high));
    }
  }
  // x[4 i + j] now holds column 4 k + j of rows 4 i .. 4 i + 3 in its quarter k.
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const __m512 even = _mm512_shuffle_f32x4(x[j], x[4 + j], 0x88), odd = _mm512_shuffle_f32x4(x[j], x[4 + j], 0xDD);
    const __m512 more_even = _mm512_shuffle_f32x4(x[8 + j], x[12 + j], 0x88);
    const __m512 more_odd = _mm512_shuffle_f32x4(x[8 + j], x[12 + j], 0xDD);
    y[j] = _mm512_shuffle_f32x4(even, more_even, 0x88);
    y[8 + j] = _mm512_shuffle_f32x4(even, more_even, 0xDD);
    y[4 + j] = _mm512_shuffle_f32x4(odd, more_odd, 0x88);
    y[12 + j] = _mm512_shuffle_f32x4(odd, more_odd, 0xDD);
  }
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) x[i] = y[i];
}

}  // namespace terrace::ops::cpu
