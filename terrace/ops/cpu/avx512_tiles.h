// The inner loops of attention for AVX-512: products of small tiles in registers and the exponential.
//
// All operands are made of 32-bit words along the dimension that a product sums over: one element of fp32, or two
// neighbouring elements of bf16, which one instruction multiplies and adds in fp32. So the loops are the same for both.
#pragma once

#include <c10/util/BFloat16.h>
#include <immintrin.h>

#include <cstdint>
#include <type_traits>

// Kernels and all that is inlined into them are compiled for these processors, and nothing else is: with flags for the
// whole file, inline functions of shared headers would need them too. Only bf16 uses the last extension.
#define TERRACE_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,prfchw")))
#define TERRACE_AVX512_INLINE TERRACE_AVX512 __attribute__((always_inline)) inline

namespace terrace::ops::cpu {

constexpr int64_t lanes = 16;         // words of a vector, and rows of a panel
constexpr int64_t tile_rows = 8;      // queries that are worked on together
constexpr int64_t block_words = 128;  // keys or queries of a block, in words

template <typename T>
constexpr int64_t word_elements = sizeof(float) / sizeof(T);
template <typename T>
constexpr int64_t block_rows = block_words* word_elements<T>;

template <typename T>
TERRACE_AVX512_INLINE __m512 multiply_add(__m512 a, __m512 b, __m512 sum) {
  if constexpr (std::is_same_v<T, float>) {
    return _mm512_fmadd_ps(a, b, sum);
  } else {
    return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
  }
}

// c[rows][16 * vectors] (+)= sum over steps of a[row] * b. Word (row, step) of `a` stands at row * a_row + step *
// a_step, vector v of a step of `b` at step * b_step + v * b_vector.
template <typename T, int rows, int vectors, int a_row, int a_step>
TERRACE_AVX512_INLINE void product_tile(const float* a, const float* b, int64_t b_step, int64_t b_vector, float* c,
                                        int64_t c_row, int64_t steps, bool add) {
  __m512 sums[rows][vectors];
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      sums[r][v] = add ? _mm512_loadu_ps(c + r * c_row + v * lanes) : _mm512_setzero_ps();
    }
  }
  for (int64_t step = 0; step < steps; ++step, a += a_step, b += b_step) {
    __m512 vector[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) vector[v] = _mm512_loadu_ps(b + v * b_vector);
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) {
      const __m512 word = _mm512_set1_ps(a[r * a_row]);
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) sums[r][v] = multiply_add<T>(word, vector[v], sums[r][v]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) _mm512_storeu_ps(c + r * c_row + v * lanes, sums[r][v]);
  }
}

// product_tile over `count` vectors of columns that stand side by side in b and c.
template <typename T, int rows, int a_row, int a_step>
TERRACE_AVX512_INLINE void product_columns(const float* a, const float* b, int64_t b_step, float* c, int64_t c_row,
                                           int64_t steps, int64_t count, bool add) {
  while (count > 0) {
    const int64_t vectors = count % 2 == 1 && count >= 3 ? 3 : count == 1 ? 1 : 2;
    if (vectors == 3) {
      product_tile<T, rows, 3, a_row, a_step>(a, b, b_step, lanes, c, c_row, steps, add);
    } else if (vectors == 2) {
      product_tile<T, rows, 2, a_row, a_step>(a, b, b_step, lanes, c, c_row, steps, add);
    } else {
      product_tile<T, rows, 1, a_row, a_step>(a, b, b_step, lanes, c, c_row, steps, add);
    }
    b += vectors * lanes;
    c += vectors * lanes;
    count -= vectors;
  }
}

// 2^x for x <= 0 or a little above; below -126 it stays at 2^-126, far from the slow subnormal numbers. x = n + f with
// f in [-1/2, 1/2] and a minimax polynomial for 2^f: to 2e-9 in fp32, to 3e-6 where the result is rounded to bf16.
template <typename T>
TERRACE_AVX512_INLINE __m512 power_of_two(__m512 x) {
  x = _mm512_max_ps(_mm512_set1_ps(-126.0f), x);  // in this order a NaN stays
  const __m512 n = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m512 f = _mm512_sub_ps(x, n);
  __m512 sum;
  if constexpr (std::is_same_v<T, float>) {
    sum = _mm512_fmadd_ps(_mm512_set1_ps(1.5353361e-4f), f, _mm512_set1_ps(1.3398874e-3f));
    sum = _mm512_fmadd_ps(sum, f, _mm512_set1_ps(9.6184369e-3f));
    sum = _mm512_fmadd_ps(sum, f, _mm512_set1_ps(5.5503324e-2f));
    sum = _mm512_fmadd_ps(sum, f, _mm512_set1_ps(2.4022648e-1f));
    sum = _mm512_fmadd_ps(sum, f, _mm512_set1_ps(6.9314718e-1f));
  } else {
    sum = _mm512_fmadd_ps(_mm512_set1_ps(9.5828529e-3f), f, _mm512_set1_ps(5.5906426e-2f));
    sum = _mm512_fmadd_ps(sum, f, _mm512_set1_ps(2.4024099e-1f));
    sum = _mm512_fmadd_ps(sum, f, _mm512_set1_ps(6.9312408e-1f));
  }
  sum = _mm512_fmadd_ps(sum, f, _mm512_set1_ps(1.0f));
  return _mm512_scalef_ps(sum, n);
}

// Which of the keys key .. key + 15 the query sees. `begins` are the document_begins of its sequence, or null.
TERRACE_AVX512_INLINE __mmask16 visible(int64_t query, int64_t key, const int32_t* begins) {
  const int64_t count = query - key + 1;
  uint32_t mask = count >= lanes ? 0xFFFF : count <= 0 ? 0 : (1U << count) - 1;
  if (begins) {
    mask &= _mm512_cmpeq_epi32_mask(_mm512_loadu_si512(begins + key), _mm512_set1_epi32(begins[query]));
  }
  return static_cast<__mmask16>(mask);
}

// Sixteen elements as fp32 and back, to nearest with ties to even.
template <typename T>
TERRACE_AVX512_INLINE __m512 load_wide(const T* from) {
  if constexpr (std::is_same_v<T, float>) {
    return _mm512_loadu_ps(from);
  } else {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
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

// Two rows of fp32 to words of bf16 whose low half is the first row's.
TERRACE_AVX512_INLINE __m512 paired(__m512 first, __m512 second) {
  const __m512i both = (__m512i)_mm512_cvtne2ps_pbh(second, first);
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21,
                                         5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return _mm512_castsi512_ps(_mm512_permutexvar_epi16(order, both));
}

}  // namespace terrace::ops::cpu
