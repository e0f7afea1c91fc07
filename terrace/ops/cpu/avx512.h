// Pieces of kernels for processors with AVX-512, for x86-64 only. Each function names the instructions it needs, so
// that nothing else of the program is compiled with them; whoever calls one has asked the processor before.
#pragma once

// GCC 12 takes the deliberately undefined operands inside its own intrinsics for mistakes.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include <immintrin.h>

#include <cstdint>

#define TERRACE_AVX512_TARGET "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma"
#define TERRACE_AVX512 __attribute__((target(TERRACE_AVX512_TARGET)))
#define TERRACE_AVX512_INLINE __attribute__((target(TERRACE_AVX512_TARGET), always_inline)) inline

namespace terrace::ops::cpu {

constexpr int64_t vector_floats = 16;

// A mask of the first `count` lanes.
inline uint16_t first_lanes(int64_t count) {
  return static_cast<uint16_t>(count >= vector_floats ? 0xFFFF : (1U << count) - 1U);
}

// Sixteen bf16 as fp32.
TERRACE_AVX512_INLINE __m512 widen_vector(__m256i x) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16));
}

// 2^x to about two ulp; x is at most 127, and below -126 the result goes to 0.
TERRACE_AVX512_INLINE __m512 power_of_two(__m512 x) {
  const __m512 whole = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m512 rest = _mm512_sub_ps(x, whole);  // in [-1/2, 1/2]
  // The Taylor series of 2^rest: the next term is below 2^-26.
  __m512 sum = _mm512_set1_ps(1.5403530393e-4F);
  sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(1.3333558146e-3F));
  sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(9.6181291076e-3F));
  sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(5.5504108665e-2F));
  sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(2.4022650696e-1F));
  sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(6.9314718056e-1F));
  sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(1.0F));
  return _mm512_scalef_ps(sum, whole);
}

// 1 / x for x in [1, 2^127], to about one ulp.
TERRACE_AVX512_INLINE __m512 reciprocal(__m512 x) {
  const __m512 guess = _mm512_rcp14_ps(x);
  return _mm512_mul_ps(guess, _mm512_fnmadd_ps(x, guess, _mm512_set1_ps(2.0F)));
}

}  // namespace terrace::ops::cpu
