// The vectors of processors with AVX2, FMA and F16C: eight numbers of fp32. The kernels of ../vectors/ are written with
// them, as with those of ../avx512/vectors.h. Elements of 16 bits are multiplied as fp32, to which they are converted
// when they are packed, so a word is always one number.
#pragma once

#include <c10/core/ScalarType.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#ifdef TERRACE_VECTOR_SET
#error "include this file before those of ../vectors/"
#endif
// The namespace of the kernels.
#define TERRACE_VECTOR_SET avx2
// Only kernels and functions that are inlined into them are compiled for these processors.
#define TERRACE_VECTOR_CODE __attribute__((target("avx2,fma,f16c,prfchw")))
#define TERRACE_VECTOR_INLINE TERRACE_VECTOR_CODE __attribute__((always_inline)) inline

namespace terrace::ops::cpu::avx2 {

constexpr int64_t lanes = 8;  // words in a vector

// __m256 without the attribute that template arguments do not have.
using OneVector = float __attribute__((vector_size(32)));

// The type of elements while they are multiplied.
template <typename T>
using Operand = float;

template <typename T>
constexpr int64_t word_elements = sizeof(float) / sizeof(Operand<T>);

// Sizes of the tiles that kernels keep in the 16 registers; ../avx512/vectors.h says what each is.
constexpr int64_t panel_vectors = 2;
constexpr int64_t tile_rows = 4;
constexpr int64_t tile_vectors = 3;
constexpr int64_t dot_rows = 3;

// Sizes for a level-2 cache of 512 KiB; ../avx512/vectors.h says what each is.
constexpr int64_t cached_bytes = 288 << 10;
constexpr int64_t most_steps = 768;
constexpr int64_t waiting_groups = 340;
constexpr int64_t groups_at_a_time = 8;

// Calls a generic lambda with a value of the type, which is one of those that products are computed of.
template <typename Body>
void for_element_type(c10::ScalarType type, const Body& body) {
  type == c10::ScalarType::Float  ? body(float{})
  : type == c10::ScalarType::Half ? body(c10::Half{})
                                  : body(c10::BFloat16{});
}

using LaneMask = __m256i;

TERRACE_VECTOR_INLINE LaneMask all_lanes() { return _mm256_set1_epi32(-1); }
// A mask of the first `count` lanes; none if the count is negative.
TERRACE_VECTOR_INLINE LaneMask first_lanes(int64_t count) {
  const auto number = static_cast<int>(std::clamp<int64_t>(count, 0, lanes));
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(number), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
// The lanes whose number is this one.
TERRACE_VECTOR_INLINE LaneMask equal_lanes(const int32_t* numbers, int32_t number) {
  return _mm256_cmpeq_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(numbers)), _mm256_set1_epi32(number));
}
TERRACE_VECTOR_INLINE LaneMask both(LaneMask a, LaneMask b) { return _mm256_and_si256(a, b); }
TERRACE_VECTOR_INLINE LaneMask without(LaneMask a, LaneMask b) { return _mm256_andnot_si256(b, a); }

TERRACE_VECTOR_INLINE OneVector zeros() { return _mm256_setzero_ps(); }
TERRACE_VECTOR_INLINE OneVector broadcast(float number) { return _mm256_set1_ps(number); }
TERRACE_VECTOR_INLINE OneVector broadcast_word(uint32_t word) {
  return _mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(word)));
}

// Load and store words, all lanes or the first `count`; the others are 0. Whole vectors are stored without a mask, with
// which some processors are slow.
TERRACE_VECTOR_INLINE OneVector load(const void* from) { return _mm256_loadu_ps(static_cast<const float*>(from)); }
TERRACE_VECTOR_INLINE OneVector load(const void* from, int64_t count) {
  if (count >= lanes) return load(from);
  return _mm256_maskload_ps(static_cast<const float*>(from), first_lanes(count));
}
TERRACE_VECTOR_INLINE void store(void* to, OneVector words) { _mm256_storeu_ps(static_cast<float*>(to), words); }
TERRACE_VECTOR_INLINE void store(void* to, OneVector words, int64_t count) {
  if (count >= lanes) {
    store(to, words);
  } else {
    _mm256_maskstore_ps(static_cast<float*>(to), first_lanes(count), words);
  }
}

// The numbers of the mask; 0 in the other lanes.
TERRACE_VECTOR_INLINE OneVector where(LaneMask mask, OneVector numbers) {
  return _mm256_and_ps(_mm256_castsi256_ps(mask), numbers);
}

template <typename T>
TERRACE_VECTOR_INLINE OneVector multiply_add(OneVector a, OneVector b, OneVector sum) {
  return _mm256_fmadd_ps(a, b, sum);
}

// a * b + c, a * b - c and c - a * b, rounded once.
TERRACE_VECTOR_INLINE OneVector times_plus(OneVector a, OneVector b, OneVector c) { return _mm256_fmadd_ps(a, b, c); }
TERRACE_VECTOR_INLINE OneVector times_minus(OneVector a, OneVector b, OneVector c) { return _mm256_fmsub_ps(a, b, c); }
TERRACE_VECTOR_INLINE OneVector minus_times(OneVector c, OneVector a, OneVector b) { return _mm256_fnmadd_ps(a, b, c); }
// If b is a NaN, so is the result.
TERRACE_VECTOR_INLINE OneVector smaller(OneVector a, OneVector b) { return _mm256_min_ps(a, b); }
TERRACE_VECTOR_INLINE OneVector larger(OneVector a, OneVector b) { return _mm256_max_ps(a, b); }
// larger(a, b) in the lanes of the mask, and a in the others.
TERRACE_VECTOR_INLINE OneVector larger_where(LaneMask mask, OneVector a, OneVector b) {
  return _mm256_max_ps(a, _mm256_blendv_ps(a, b, _mm256_castsi256_ps(mask)));
}
TERRACE_VECTOR_INLINE OneVector nearest_integer(OneVector x) {
  return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
// x * 2^n for an integer n in [-126, 127].
TERRACE_VECTOR_INLINE OneVector scaled_by_power(OneVector x, OneVector n) {
  const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
  return x * _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23));
}
// The processors' own estimates differ.
TERRACE_VECTOR_INLINE OneVector reciprocal(OneVector x) { return broadcast(1.0F) / x; }

// Sums the lanes in a fixed order.
TERRACE_VECTOR_INLINE float sum_of(OneVector x) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
TERRACE_VECTOR_INLINE float largest_of(OneVector x) {
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

// Writes the sums of the lanes of four vectors, always added in the same order.
TERRACE_VECTOR_INLINE void store_sums(float* to, OneVector a, OneVector b, OneVector c, OneVector d) {
  const __m256 ab = _mm256_add_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
  const __m256 cd = _mm256_add_ps(_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
  const __m256 all = _mm256_add_ps(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xEE));
  _mm_storeu_ps(to, _mm_add_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1)));
}

// Eight elements of 16 bits as fp32, and fp32 as those, rounded to nearest with ties to even.
template <typename T>
TERRACE_VECTOR_INLINE OneVector widened(__m128i bits) {
  if constexpr (std::is_same_v<T, c10::Half>) {
    return _mm256_cvtph_ps(bits);
  } else {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }
}

template <typename T>
TERRACE_VECTOR_INLINE __m128i narrowed(OneVector value) {
  if constexpr (std::is_same_v<T, c10::Half>) {
    return _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT);
  } else {
    const __m256i bits = _mm256_castps_si256(value);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i sum = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7FFF)), odd);
    const __m256i quiet = _mm256_set1_epi32(0x7FC00000);  // a NaN stays one
    const __m256 is_number = _mm256_cmp_ps(value, value, _CMP_ORD_Q);
    const __m256 chosen = _mm256_blendv_ps(_mm256_castsi256_ps(quiet), _mm256_castsi256_ps(sum), is_number);
    const __m256i high = _mm256_srli_epi32(_mm256_castps_si256(chosen), 16);
    return _mm_packus_epi32(_mm256_castsi256_si128(high), _mm256_extracti128_si256(high, 1));
  }
}

// Load elements as fp32, all lanes or the first `count`, and store them.
template <typename T>
TERRACE_VECTOR_INLINE OneVector load_wide(const T* from) {
  if constexpr (std::is_same_v<T, float>) {
    return load(from);
  } else {
    return widened<T>(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
}

template <typename T>
TERRACE_VECTOR_INLINE OneVector load_wide(const T* from, int64_t count) {
  if constexpr (std::is_same_v<T, float>) {
    return load(from, count);
  } else {
    if (count >= lanes) return load_wide(from);
    alignas(16) uint16_t bits[lanes] = {};
    for (int64_t i = 0; i < count; ++i) bits[i] = from[i].x;
    return widened<T>(_mm_load_si128(reinterpret_cast<const __m128i*>(bits)));
  }
}

template <typename T>
TERRACE_VECTOR_INLINE void store_narrow(T* to, OneVector value) {
  if constexpr (std::is_same_v<T, float>) {
    store(to, value);
  } else {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), narrowed<T>(value));
  }
}

template <typename T>
TERRACE_VECTOR_INLINE void store_narrow(T* to, OneVector value, int64_t count) {
  if constexpr (std::is_same_v<T, float>) {
    store(to, value, count);
  } else if (count >= lanes) {
    store_narrow(to, value);
  } else {
    alignas(16) uint16_t bits[lanes];
    _mm_store_si128(reinterpret_cast<__m128i*>(bits), narrowed<T>(value));
    for (int64_t i = 0; i < count; ++i) to[i].x = bits[i];
  }
}

// Two vectors, one after the other.
template <typename T>
TERRACE_VECTOR_INLINE void store_narrow_two(T* to, OneVector first, OneVector second) {
  store_narrow(to, first);
  store_narrow(to + lanes, second);
}

// The values as they are after store_narrow() and load_wide().
template <typename T>
TERRACE_VECTOR_INLINE OneVector rounded(OneVector value) {
  if constexpr (std::is_same_v<T, float>) {
    return value;
  } else {
    return widened<T>(narrowed<T>(value));
  }
}

// Copies the first `count` of as many elements as a vector has lanes, with zeros in place of the others.
template <typename T>
TERRACE_VECTOR_INLINE void copy_operands(const T* from, int64_t count, float* to) {
  store(to, load_wide(from, count));
}

// A vector of words that are contiguous elements, all or the first `count`.
template <typename T>
TERRACE_VECTOR_INLINE OneVector load_words(const T* from) {
  return load_wide(from);
}

template <typename T>
TERRACE_VECTOR_INLINE OneVector load_words(const T* from, int64_t count) {
  return load_wide(from, count);
}

// Words are no pairs of elements here.
template <typename T>
OneVector load_pairs_of_rows(const T* first, const T* second, int64_t count) = delete;
template <typename T>
OneVector paired(OneVector first, OneVector second) = delete;
template <typename T>
OneVector low_halves(OneVector words) = delete;
template <typename T>
OneVector high_halves(OneVector words) = delete;

// evens_of() takes the numbers with an even index in two vectors, and odds_of() those with an odd one.
TERRACE_VECTOR_INLINE OneVector in_order_of_pairs(OneVector numbers) {
  return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(numbers), 0xD8));
}
TERRACE_VECTOR_INLINE OneVector evens_of(OneVector first, OneVector second) {
  return in_order_of_pairs(_mm256_shuffle_ps(first, second, 0x88));
}
TERRACE_VECTOR_INLINE OneVector odds_of(OneVector first, OneVector second) {
  return in_order_of_pairs(_mm256_shuffle_ps(first, second, 0xDD));
}
// The first and the second vector of the numbers that evens_of() and odds_of() divide.
TERRACE_VECTOR_INLINE OneVector first_interleaved(OneVector evens, OneVector odds) {
  return _mm256_permute2f128_ps(_mm256_unpacklo_ps(evens, odds), _mm256_unpackhi_ps(evens, odds), 0x20);
}
TERRACE_VECTOR_INLINE OneVector second_interleaved(OneVector evens, OneVector odds) {
  return _mm256_permute2f128_ps(_mm256_unpacklo_ps(evens, odds), _mm256_unpackhi_ps(evens, odds), 0x31);
}

// Writes the words of three vectors in groups of six, of which group g begins at to + g * group_words: the first
// `groups`, and two words beyond the end of each.
TERRACE_VECTOR_INLINE void store_groups(const OneVector (&line)[3], int64_t groups, int64_t group_words, uint32_t* to) {
  store(to, line[0]);
  if (groups < 2) return;
  const __m256i second = _mm256_castps_si256(line[1]);
  const __m256i middle = _mm256_castps_si256(_mm256_permute2f128_ps(line[0], line[1], 0x21));
  store(to + group_words, _mm256_castsi256_ps(_mm256_alignr_epi8(second, middle, 8)));
  if (groups < 3) return;
  store(to + 2 * group_words, _mm256_permute2f128_ps(line[1], line[2], 0x21));
  if (groups < 4) return;
  store(to + 3 * group_words, _mm256_permutevar8x32_ps(line[2], _mm256_setr_epi32(2, 3, 4, 5, 6, 7, 6, 7)));
}

// Transposes a square of vectors.
TERRACE_VECTOR_INLINE void transpose(OneVector (&x)[lanes]) {
  __m256 y[lanes];
#pragma GCC unroll 8
  for (int i = 0; i < 8; i += 2) {
    y[i] = _mm256_unpacklo_ps(x[i], x[i + 1]);
    y[i + 1] = _mm256_unpackhi_ps(x[i], x[i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      x[i + 2 * j] = _mm256_shuffle_ps(y[i + j], y[i + 2 + j], 0x44);
      x[i + 2 * j + 1] = _mm256_shuffle_ps(y[i + j], y[i + 2 + j], 0xEE);
    }
  }
  // x[4 i + j] now holds column 4 k + j of rows 4 i .. 4 i + 3 in its half k.
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    y[j] = _mm256_permute2f128_ps(x[j], x[4 + j], 0x20);
    y[4 + j] = _mm256_permute2f128_ps(x[j], x[4 + j], 0x31);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) x[i] = y[i];
}

}  // namespace terrace::ops::cpu::avx2
