// The vectors of processors with AVX-512: sixteen numbers of fp32, and words of one element of fp32 or two of bf16. The
// kernels of ../vectors/ are written with them; ../avx2/vectors.h has the same functions for vectors of eight.
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

#ifdef TERRACE_VECTOR_SET
#error "include this file before those of ../vectors/"
#endif
// The namespace of the kernels.
#define TERRACE_VECTOR_SET avx512
// Only kernels and functions that are inlined into them are compiled for these processors. Flags for the whole file
// would also apply to inline functions of shared headers, which run on every processor. Only bf16 uses AVX-512 BF16.
#define TERRACE_VECTOR_CODE __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,prfchw")))
#define TERRACE_VECTOR_INLINE TERRACE_VECTOR_CODE __attribute__((always_inline)) inline

namespace terrace::ops::cpu::avx512 {

constexpr int64_t lanes = 16;  // words in a vector

// __m512 without the attribute that template arguments do not have.
using OneVector = float __attribute__((vector_size(64)));

// The type of elements while they are multiplied.
template <typename T>
using Operand = T;

template <typename T>
constexpr int64_t word_elements = sizeof(float) / sizeof(Operand<T>);

// Sizes of the tiles that kernels keep in the 32 registers. Of products: vectors of columns of a tile of six rows.
constexpr int64_t panel_vectors = 4;
constexpr int64_t tile_rows = 8;     // queries in a tile
constexpr int64_t tile_vectors = 2;  // of columns that a tile of so many rows takes where it can
constexpr int64_t dot_rows = 6;      // of dot products with four outputs

// The size of the packed panels that a thread uses at a time, so that they stay in its level-2 cache.
constexpr int64_t cached_bytes = 448 << 10;
// The most words along k that a tile sums at a time, so that its rows of A stay in the level-1 cache over all panels.
constexpr int64_t most_steps = 768;
// The most groups of rows whose sums wait for the next words along k.
constexpr int64_t waiting_groups = 340;
// The groups of rows of A that are packed at a time where A must be packed.
constexpr int64_t groups_at_a_time = 16;

// Calls a generic lambda with a value of the type, which is one of those that products are computed of.
template <typename Body>
void for_element_type(c10::ScalarType type, const Body& body) {
  type == c10::ScalarType::Float ? body(float{}) : body(c10::BFloat16{});
}

using LaneMask = __mmask16;

// A mask of the first `count` lanes; none if the count is negative.
inline LaneMask first_lanes(int64_t count) {
  return static_cast<LaneMask>(count >= lanes ? 0xFFFF : (1U << std::max<int64_t>(count, 0)) - 1U);
}
inline LaneMask all_lanes() { return 0xFFFF; }
// The lanes whose number is this one.
TERRACE_VECTOR_INLINE LaneMask equal_lanes(const int32_t* numbers, int32_t number) {
  return _mm512_cmpeq_epi32_mask(_mm512_loadu_si512(numbers), _mm512_set1_epi32(number));
}
inline LaneMask both(LaneMask a, LaneMask b) { return static_cast<LaneMask>(a & b); }
inline LaneMask without(LaneMask a, LaneMask b) { return static_cast<LaneMask>(a & ~uint32_t{b}); }

TERRACE_VECTOR_INLINE OneVector zeros() { return _mm512_setzero_ps(); }
TERRACE_VECTOR_INLINE OneVector broadcast(float number) { return _mm512_set1_ps(number); }
TERRACE_VECTOR_INLINE OneVector broadcast_word(uint32_t word) {
  return _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(word)));
}

// Load and store words, all lanes or the first `count`; the others are 0.
TERRACE_VECTOR_INLINE OneVector load(const void* from) { return _mm512_loadu_ps(from); }
TERRACE_VECTOR_INLINE OneVector load(const void* from, int64_t count) {
  return _mm512_maskz_loadu_ps(first_lanes(count), from);
}
TERRACE_VECTOR_INLINE void store(void* to, OneVector words) { _mm512_storeu_ps(to, words); }
TERRACE_VECTOR_INLINE void store(void* to, OneVector words, int64_t count) {
  _mm512_mask_storeu_ps(to, first_lanes(count), words);
}

// The numbers of the mask; 0 in the other lanes.
TERRACE_VECTOR_INLINE OneVector where(LaneMask mask, OneVector numbers) { return _mm512_maskz_mov_ps(mask, numbers); }

template <typename T>
TERRACE_VECTOR_INLINE OneVector multiply_add(OneVector a, OneVector b, OneVector sum) {
  if constexpr (std::is_same_v<T, float>) {
    return _mm512_fmadd_ps(a, b, sum);
  } else {
    return _mm512_dpbf16_ps(sum, (__m512bh)(__m512)a, (__m512bh)(__m512)b);
  }
}

// a * b + c, a * b - c and c - a * b, rounded once.
TERRACE_VECTOR_INLINE OneVector times_plus(OneVector a, OneVector b, OneVector c) { return _mm512_fmadd_ps(a, b, c); }
TERRACE_VECTOR_INLINE OneVector times_minus(OneVector a, OneVector b, OneVector c) { return _mm512_fmsub_ps(a, b, c); }
TERRACE_VECTOR_INLINE OneVector minus_times(OneVector c, OneVector a, OneVector b) { return _mm512_fnmadd_ps(a, b, c); }
// If b is a NaN, so is the result.
TERRACE_VECTOR_INLINE OneVector smaller(OneVector a, OneVector b) { return _mm512_min_ps(a, b); }
TERRACE_VECTOR_INLINE OneVector larger(OneVector a, OneVector b) { return _mm512_max_ps(a, b); }
// larger(a, b) in the lanes of the mask, and a in the others.
TERRACE_VECTOR_INLINE OneVector larger_where(LaneMask mask, OneVector a, OneVector b) {
  return _mm512_mask_max_ps(a, mask, a, b);
}
TERRACE_VECTOR_INLINE OneVector nearest_integer(OneVector x) {
  return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
// x * 2^n for an integer n in [-126, 127].
TERRACE_VECTOR_INLINE OneVector scaled_by_power(OneVector x, OneVector n) { return _mm512_scalef_ps(x, n); }
// 1 / x for x in [1, 2^127], to about one ulp.
TERRACE_VECTOR_INLINE OneVector reciprocal(OneVector x) {
  const OneVector guess = _mm512_rcp14_ps(x);
  return guess * minus_times(broadcast(2.0F), x, guess);
}

// Sums the lanes in a fixed order.
TERRACE_VECTOR_INLINE float sum_of(OneVector x) { return _mm512_reduce_add_ps(x); }
TERRACE_VECTOR_INLINE float largest_of(OneVector x) { return _mm512_reduce_max_ps(x); }

// Writes the sums of the lanes of four vectors, always added in the same order.
TERRACE_VECTOR_INLINE void store_sums(float* to, OneVector a, OneVector b, OneVector c, OneVector d) {
  const __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
  const __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
  const __m512 all = _mm512_add_ps(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xEE));
  const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(all), _mm512_extractf32x8_ps(all, 1));
  _mm_storeu_ps(to, _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1)));
}

// Load elements as fp32, all lanes or the first `count`, and store them, rounded to nearest with ties to even.
TERRACE_VECTOR_INLINE OneVector widened(__m256i bits) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

template <typename T>
TERRACE_VECTOR_INLINE OneVector load_wide(const T* from) {
  if constexpr (std::is_same_v<T, float>) {
    return load(from);
  } else {
    return widened(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  }
}

template <typename T>
TERRACE_VECTOR_INLINE OneVector load_wide(const T* from, int64_t count) {
  if constexpr (std::is_same_v<T, float>) {
    return load(from, count);
  } else {
    return widened(_mm256_maskz_loadu_epi16(first_lanes(count), from));
  }
}

template <typename T>
TERRACE_VECTOR_INLINE void store_narrow(T* to, OneVector value) {
  if constexpr (std::is_same_v<T, float>) {
    store(to, value);
  } else {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), (__m256i)_mm512_cvtneps_pbh(value));
  }
}

template <typename T>
TERRACE_VECTOR_INLINE void store_narrow(T* to, OneVector value, int64_t count) {
  if constexpr (std::is_same_v<T, float>) {
    store(to, value, count);
  } else {
    _mm256_mask_storeu_epi16(to, first_lanes(count), (__m256i)_mm512_cvtneps_pbh(value));
  }
}

// Two vectors, one after the other.
template <typename T>
TERRACE_VECTOR_INLINE void store_narrow_two(T* to, OneVector first, OneVector second) {
  if constexpr (std::is_same_v<T, float>) {
    store(to, first);
    store(to + lanes, second);
  } else {
    _mm512_storeu_si512(to, (__m512i)_mm512_cvtne2ps_pbh(second, first));
  }
}

// The values as they are after store_narrow() and load_wide().
template <typename T>
TERRACE_VECTOR_INLINE OneVector rounded(OneVector value) {
  if constexpr (std::is_same_v<T, float>) {
    return value;
  } else {
    return widened((__m256i)_mm512_cvtneps_pbh(value));
  }
}

// Copies the first `count` of as many elements as a vector has lanes, with zeros in place of the others.
template <typename T>
TERRACE_VECTOR_INLINE void copy_operands(const T* from, int64_t count, T* to) {
  if constexpr (std::is_same_v<T, float>) {
    store(to, load(from, count));
  } else {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_maskz_loadu_epi16(first_lanes(count), from));
  }
}

// A vector of words that are contiguous elements, all or the first `count`.
template <typename T>
TERRACE_VECTOR_INLINE OneVector load_words(const T* from) {
  return load(from);
}

template <typename T>
TERRACE_VECTOR_INLINE OneVector load_words(const T* from, int64_t count) {
  if constexpr (std::is_same_v<T, float>) {
    return load(from, count);
  } else {
    return _mm512_castsi512_ps(_mm512_maskz_loadu_epi16(count >= 32 ? 0xFFFFFFFFU : (1U << count) - 1U, from));
  }
}

// Words of bf16 pairs, whose low half is from the first row: the first `count`. Without a second row it is zero.
template <typename T>
TERRACE_VECTOR_INLINE OneVector load_pairs_of_rows(const T* first, const T* second, int64_t count) {
  const __mmask16 mask = first_lanes(count);
  const __m256i low = _mm256_maskz_loadu_epi16(mask, first);
  const __m256i high = second ? _mm256_maskz_loadu_epi16(mask, second) : _mm256_setzero_si256();
  return _mm512_castsi512_ps(
      _mm512_or_si512(_mm512_cvtepu16_epi32(low), _mm512_slli_epi32(_mm512_cvtepu16_epi32(high), 16)));
}

// Rounds two rows of fp32 to words of bf16 pairs, whose low half is from the first row.
template <typename T>
TERRACE_VECTOR_INLINE OneVector paired(OneVector first, OneVector second) {
  const __m512i both = (__m512i)_mm512_cvtne2ps_pbh(second, first);
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21,
                                         5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return _mm512_castsi512_ps(_mm512_permutexvar_epi16(order, both));
}

// The low and the high halves of words of bf16 pairs, in fp32.
template <typename T>
TERRACE_VECTOR_INLINE OneVector low_halves(OneVector words) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(words), 16));
}
template <typename T>
TERRACE_VECTOR_INLINE OneVector high_halves(OneVector words) {
  return _mm512_castsi512_ps(
      _mm512_and_si512(_mm512_castps_si512(words), _mm512_set1_epi32(static_cast<int>(0xFFFF0000))));
}

// evens_of() takes the numbers with an even index in two vectors, and odds_of() those with an odd one.
TERRACE_VECTOR_INLINE OneVector evens_of(OneVector first, OneVector second) {
  const __m512i evens = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  return _mm512_permutex2var_ps(first, evens, second);
}
TERRACE_VECTOR_INLINE OneVector odds_of(OneVector first, OneVector second) {
  const __m512i odds = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
  return _mm512_permutex2var_ps(first, odds, second);
}
// The first and the second vector of the numbers that evens_of() and odds_of() divide.
TERRACE_VECTOR_INLINE OneVector first_interleaved(OneVector evens, OneVector odds) {
  const __m512i lower = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  return _mm512_permutex2var_ps(evens, lower, odds);
}
TERRACE_VECTOR_INLINE OneVector second_interleaved(OneVector evens, OneVector odds) {
  const __m512i upper = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  return _mm512_permutex2var_ps(evens, upper, odds);
}

// The words [6 g, 6 g + 8) of the 48 words in three vectors: for g = 2 `pair` in the lower half of the result, for
// g = 2 `pair` + 1 in the upper half.
template <int pair>
TERRACE_VECTOR_INLINE __m512i two_groups(const OneVector (&line)[3]) {
  constexpr int first = 12 * pair, vector = first / 16, at = first % 16;
  const __m512i order =
      _mm512_add_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 6, 7, 8, 9, 10, 11, 12, 13), _mm512_set1_epi32(at));
  return _mm512_permutex2var_epi32(_mm512_castps_si512(line[vector]), order,
                                   _mm512_castps_si512(line[vector < 2 ? vector + 1 : vector]));
}

template <int pair>
TERRACE_VECTOR_INLINE void store_two_groups(const OneVector (&line)[3], int64_t groups, int64_t group_words,
                                            uint32_t* to) {
  const __m512i words = two_groups<pair>(line);
  uint32_t* const place = to + 2 * pair * group_words;
  if (groups > 2 * pair) _mm256_storeu_si256(reinterpret_cast<__m256i*>(place), _mm512_castsi512_si256(words));
  if (groups > 2 * pair + 1) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(place + group_words), _mm512_extracti64x4_epi64(words, 1));
  }
}

// Writes the words of three vectors in groups of six, of which group g begins at to + g * group_words: the first
// `groups`, and two words beyond the end of each.
TERRACE_VECTOR_INLINE void store_groups(const OneVector (&line)[3], int64_t groups, int64_t group_words, uint32_t* to) {
  store_two_groups<0>(line, groups, group_words, to);
  store_two_groups<1>(line, groups, group_words, to);
  store_two_groups<2>(line, groups, group_words, to);
  store_two_groups<3>(line, groups, group_words, to);
}

// Transposes a square of vectors.
TERRACE_VECTOR_INLINE void transpose(OneVector (&x)[lanes]) {
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

}  // namespace terrace::ops::cpu::avx512
