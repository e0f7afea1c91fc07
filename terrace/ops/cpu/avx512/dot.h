// Sums of products of neighbouring elements: the dot products of several rows with several other rows at a time.
#pragma once

#include "terrace/ops/cpu/avx512/vectors.h"

namespace terrace::ops::cpu {

template <typename T>
constexpr int64_t vector_elements = lanes* word_elements<T>;

// The first `count` elements of a vector, and zeros.
template <typename T>
TERRACE_AVX512_INLINE __m512 load_words(const T* from, int64_t count) {
  if constexpr (std::is_same_v<T, float>) {
    return _mm512_maskz_loadu_ps(first_lanes(count), from);
  } else {
    return _mm512_castsi512_ps(_mm512_maskz_loadu_epi16((__mmask32{1} << count) - 1, from));
  }
}

// The sums of the lanes of four vectors, always added in the same order.
TERRACE_AVX512_INLINE __m128 sums_of_lanes(__m512 a, __m512 b, __m512 c, __m512 d) {
  const __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
  const __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
  const __m512 all = _mm512_add_ps(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xEE));
  const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(all), _mm512_extractf32x8_ps(all, 1));
  return _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
}

constexpr int64_t dot_rows = 6, dot_outputs = 4;  // of the largest tile, whose sums stay in registers

// Adds to the sums the products of one vector of elements, or of the first `count` of a vector if it is not whole.
template <typename T, int Rows, bool whole>
TERRACE_AVX512_INLINE void add_products(const T* x, int64_t x_stride, const T* const (&weight)[dot_outputs], int64_t at,
                                        int64_t count, __m512 (&sums)[Rows][dot_outputs]) {
  __m512 b[dot_outputs];
#pragma GCC unroll 4
  for (int o = 0; o < dot_outputs; ++o) {
    b[o] = whole ? _mm512_loadu_ps(weight[o] + at) : load_words(weight[o] + at, count);
  }
#pragma GCC unroll 6
  for (int row = 0; row < Rows; ++row) {
    const T* from = x + row * x_stride + at;
    const __m512 a = whole ? _mm512_loadu_ps(from) : load_words(from, count);
#pragma GCC unroll 4
    for (int o = 0; o < dot_outputs; ++o) sums[row][o] = multiply_add<T>(a, b[o], sums[row][o]);
  }
}

// out[row * out_stride + o] = x[row] . weight[o] over `inputs` elements, for `Rows` rows of x and four of the weight,
// of which only the first `outputs` are read. With `fetch_next` the four rows after them are prefetched.
template <typename T, int Rows>
TERRACE_AVX512 void dot_tile(const T* x, int64_t x_stride, const T* weight, int64_t weight_stride, int64_t outputs,
                             int64_t inputs, bool fetch_next, float* out, int64_t out_stride) {
  const T* rows[dot_outputs];
  for (int64_t o = 0; o < dot_outputs; ++o) rows[o] = weight + (o < outputs ? o : 0) * weight_stride;
  __m512 sums[Rows][dot_outputs];
#pragma GCC unroll 6
  for (int row = 0; row < Rows; ++row) {
#pragma GCC unroll 4
    for (int o = 0; o < dot_outputs; ++o) sums[row][o] = _mm512_setzero_ps();
  }
  const int64_t ahead = dot_outputs * weight_stride;
  int64_t at = 0;
  for (; at + vector_elements<T> <= inputs; at += vector_elements<T>) {
    if (fetch_next) {
#pragma GCC unroll 4
      for (int o = 0; o < dot_outputs; ++o) __builtin_prefetch(rows[o] + at + ahead);
    }
    add_products<T, Rows, true>(x, x_stride, rows, at, vector_elements<T>, sums);
  }
  if (at < inputs) add_products<T, Rows, false>(x, x_stride, rows, at, inputs - at, sums);
#pragma GCC unroll 6
  for (int row = 0; row < Rows; ++row) {
    _mm_storeu_ps(out + row * out_stride, sums_of_lanes(sums[row][0], sums[row][1], sums[row][2], sums[row][3]));
  }
}

template <typename T>
using DotTile = void (*)(const T*, int64_t, const T*, int64_t, int64_t, int64_t, bool, float*, int64_t);

// The tile for 1 to 6 rows.
template <typename T>
DotTile<T> dot_tile_of(int64_t rows) {
  static constexpr DotTile<T> tiles[dot_rows] = {dot_tile<T, 1>, dot_tile<T, 2>, dot_tile<T, 3>,
                                                 dot_tile<T, 4>, dot_tile<T, 5>, dot_tile<T, 6>};
  return tiles[rows - 1];
}

}  // namespace terrace::ops::cpu
