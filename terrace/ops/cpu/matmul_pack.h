// Copies of factors in the order in which the product's inner loop reads them. A unit is what one step of the sum takes
// from one row or column: an fp32 number, or a pair of bf16 that follow each other along k.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "terrace/ops/cpu/avx512.h"

namespace terrace::ops::cpu {

constexpr int64_t tile_rows = 6;
constexpr int64_t panel_columns = 64;

// Reads units of a matrix whose k is contiguous or not.
template <typename T>
class Units {
 public:
  static constexpr int64_t per_unit = sizeof(uint32_t) / sizeof(T);

  Units(const void* data, int64_t stride, int64_t k) : data_(static_cast<const T*>(data)), stride_(stride), k_(k) {}

  int64_t steps() const { return (k_ + per_unit - 1) / per_unit; }

  // Sixteen neighbours in the other dimension, or the first `count` of them and zeros, of a matrix [k, other].
  TERRACE_AVX512_INLINE __m512i beside(int64_t step, int64_t other, int64_t count) const {
    const T* row = data_ + step * per_unit * stride_ + other;
    const __mmask16 mask = first_lanes(count);
    if constexpr (per_unit == 1) {
      return _mm512_maskz_loadu_epi32(mask, row);
    } else {
      const __m512i even = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, row));
      if (2 * step + 1 == k_) return even;
      const __m512i odd = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, row + stride_));
      return _mm512_or_si512(even, _mm512_slli_epi32(odd, 16));
    }
  }

  // Sixteen steps of one row, or the first of them and zeros, of a matrix [other, k].
  TERRACE_AVX512_INLINE __m512i along(int64_t step, int64_t other) const {
    const T* at = data_ + other * stride_ + step * per_unit;
    const int64_t left = k_ - step * per_unit;
    if constexpr (per_unit == 1) {
      return _mm512_maskz_loadu_epi32(first_lanes(left), at);
    } else {
      return _mm512_maskz_loadu_epi16(left >= 32 ? 0xFFFFFFFFU : (1U << left) - 1U, at);
    }
  }

 private:
  const T* data_;
  int64_t stride_;
  int64_t k_;
};

// Sixteen vectors as the rows of a square, transposed.
TERRACE_AVX512_INLINE void transpose_units(__m512i (&r)[16]) {
  __m512i t[16];
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xDD);
    t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xDD);
  }
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
    r[i + 4] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0x88);
    r[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xDD);
    r[i + 12] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0xDD);
  }
}

// Columns [left, left + 64) of B as [steps][64] units, zeros beyond n.
template <typename T>
TERRACE_AVX512 void pack_panel(const Units<T>& b, bool k_inner, int64_t left, int64_t n, uint32_t* to) {
  const int64_t steps = b.steps(), columns = std::min(panel_columns, n - left);
  for (int64_t part = 0; part < panel_columns; part += vector_floats) {
    const int64_t count = std::clamp<int64_t>(columns - part, 0, vector_floats);
    if (!k_inner) {
      for (int64_t step = 0; step < steps; ++step) {
        _mm512_storeu_si512(to + step * panel_columns + part, b.beside(step, left + part, count));
      }
      continue;
    }
    for (int64_t step = 0; step < steps; step += vector_floats) {
      __m512i square[16];
      for (int64_t i = 0; i < 16; ++i) {
        square[i] = i < count ? b.along(step, left + part + i) : _mm512_setzero_si512();
      }
      transpose_units(square);
      const int64_t rows = std::min(vector_floats, steps - step);
      for (int64_t i = 0; i < rows; ++i) {
        _mm512_storeu_si512(to + (step + i) * panel_columns + part, square[i]);
      }
    }
  }
}

// The units [6 g, 6 g + 8) of 48 in three vectors for g = 2 `pair` and, in the upper half, g = 2 `pair` + 1.
template <int pair>
TERRACE_AVX512_INLINE __m512i two_groups(const __m512i (&line)[3]) {
  constexpr int first = 2 * pair * tile_rows, vector = first / 16, at = first % 16;
  const __m512i order =
      _mm512_add_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 6, 7, 8, 9, 10, 11, 12, 13), _mm512_set1_epi32(at));
  return _mm512_permutex2var_epi32(line[vector], order, line[vector < 2 ? vector + 1 : vector]);
}

template <int pair>
TERRACE_AVX512_INLINE void store_two_groups(const __m512i (&line)[3], int64_t groups, int64_t group_units,
                                            uint32_t* to) {
  const __m512i units = two_groups<pair>(line);
  uint32_t* const place = to + 2 * pair * group_units;
  if (groups > 2 * pair) _mm256_storeu_si256(reinterpret_cast<__m256i*>(place), _mm512_castsi512_si256(units));
  if (groups > 2 * pair + 1) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(place + group_units), _mm512_extracti64x4_epi64(units, 1));
  }
}

// Rows [top, top + rows) of A, which is [k, m], as groups [steps][6] units; top is a multiple of 48 and rows at
// most 48. Writes up to two units past the end of each group's place.
template <typename T>
TERRACE_AVX512 void pack_groups(const Units<T>& a, int64_t top, int64_t rows, int64_t group_units, uint32_t* to) {
  const int64_t steps = a.steps(), groups = (rows + tile_rows - 1) / tile_rows;
  for (int64_t step = 0; step < steps; ++step) {
    __m512i line[3];
    for (int64_t part = 0; part < 3; ++part) {
      const int64_t first = part * vector_floats;
      line[part] = first < rows ? a.beside(step, top + first, rows - first) : _mm512_setzero_si512();
    }
    uint32_t* const place = to + step * tile_rows;
    store_two_groups<0>(line, groups, group_units, place);
    store_two_groups<1>(line, groups, group_units, place);
    store_two_groups<2>(line, groups, group_units, place);
    store_two_groups<3>(line, groups, group_units, place);
  }
}

// Rows of A, which is [m, k], with a zero where the last pair is half.
template <typename T>
TERRACE_AVX512 void pack_rows(const Units<T>& a, int64_t top, int64_t rows, uint32_t* to) {
  const int64_t steps = a.steps();
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t step = 0; step < steps; step += vector_floats) {
      _mm512_mask_storeu_epi32(to + row * steps + step, first_lanes(steps - step), a.along(step, top + row));
    }
  }
}

}  // namespace terrace::ops::cpu
