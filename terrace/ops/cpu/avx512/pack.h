// Packs rows of a head in the orders in which the tiles of attention read them, with rotation, and unpacks gradients.
//
// For n rows of hd elements, padded with zeros to a width that is a multiple of 16, or W = width / word_elements words:
//   rows    [n][W], as in the joint projection
//   panels  [n / 16][W][16]: words along hd, for products that sum over hd
//   pairs   [n / word_elements][width]: words along the rows, for products that sum over rows; in fp32 the same as rows
#pragma once

#include <algorithm>
#include <cstring>

#include "terrace/ops/cpu/avx512/tiles.h"

namespace terrace::ops::cpu {

constexpr int64_t largest_head_dim = 256;
constexpr int64_t line_bytes = 64;

// The rotary positions of one sequence; see ops/attention.h.
struct Rotation {
  const float* cosines = nullptr;  // null: no rotation
  const float* sines = nullptr;
  const int64_t* positions = nullptr;  // null: 0 .. T-1
};

TERRACE_AVX512_INLINE void rotate_row(float* row, const Rotation& rotation, int64_t t, float direction,
                                      int64_t head_dim) {
  const int64_t half = head_dim / 2, position = rotation.positions ? rotation.positions[t] : t;
  const float *cosines = rotation.cosines + position * half, *sines = rotation.sines + position * half;
  for (int64_t i = 0; i < half; i += lanes) {
    const __mmask16 mask = first_lanes(half - i);
    const __m512 first = _mm512_maskz_loadu_ps(mask, row + i), second = _mm512_maskz_loadu_ps(mask, row + half + i);
    const __m512 cosine = _mm512_maskz_loadu_ps(mask, cosines + i);
    const __m512 sine = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, sines + i), _mm512_set1_ps(direction));
    _mm512_mask_storeu_ps(row + i, mask, _mm512_fmsub_ps(first, cosine, _mm512_mul_ps(second, sine)));
    _mm512_mask_storeu_ps(row + half + i, mask, _mm512_fmadd_ps(second, cosine, _mm512_mul_ps(first, sine)));
  }
}

// Prefetches a row of a head well before its use, since the processor's own prefetch does not recognize rows so far
// apart. Prefetch for writing also makes the lines exclusive to this core.
template <bool for_writing, typename T>
TERRACE_AVX512_INLINE void prefetch_row(const T* row, int64_t width) {
  for (int64_t column = 0; column < width; column += line_bytes / static_cast<int64_t>(sizeof(T))) {
    __builtin_prefetch(row + column, for_writing, 3);
  }
}

// Copies a row, and zeros up to its width.
template <typename T>
TERRACE_AVX512_INLINE void copy_row(const T* from, int64_t head_dim, T* to) {
  for (int64_t i = 0; i < head_dim; i += lanes) {
    const __mmask16 mask = first_lanes(head_dim - i);
    if constexpr (word_elements<T> == 1) {
      _mm512_storeu_ps(to + i, _mm512_maskz_loadu_ps(mask, from + i));
    } else {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i), _mm256_maskz_loadu_epi16(mask, from + i));
    }
  }
}

// Copies rows [begin, end) of the head whose row 0 is at `head`, and zeros up to a multiple of 16 rows.
template <typename T>
TERRACE_AVX512_INLINE void gather_rows(const T* head, int64_t stride, int64_t begin, int64_t end,
                                       const Rotation& rotation, int64_t head_dim, float* rows) {
  const int64_t words = (head_dim + lanes - 1) / lanes * lanes / word_elements<T>;
  for (int64_t t = begin; t < end; ++t, rows += words) {
    const T* from = head + t * stride;
    if (!rotation.cosines) {
      copy_row(from, head_dim, reinterpret_cast<T*>(rows));
      continue;
    }
    float wide[largest_head_dim];
    for (int64_t i = 0; i < head_dim; i += lanes) {
      _mm512_storeu_ps(wide + i, load_wide(from + i, first_lanes(head_dim - i)));
    }
    rotate_row(wide, rotation, t, 1.0f, head_dim);
    for (int64_t i = 0; i < head_dim; i += lanes) {
      store_narrow(reinterpret_cast<T*>(rows) + i, _mm512_loadu_ps(wide + i));
    }
  }
  const int64_t missing = -(end - begin) & (lanes - 1);
  std::memset(rows, 0, missing * words * sizeof(float));
}

// Writes a row of a head's gradient: fp32 sums times `factor`, rotated back.
template <typename T>
TERRACE_AVX512_INLINE void scatter_row(const float* sums, float factor, const Rotation& rotation, int64_t t,
                                       int64_t head_dim, T* to) {
  float wide[largest_head_dim];
  for (int64_t i = 0; i < head_dim; i += lanes) {
    _mm512_storeu_ps(wide + i, _mm512_mul_ps(_mm512_loadu_ps(sums + i), _mm512_set1_ps(factor)));
  }
  if (rotation.cosines) rotate_row(wide, rotation, t, -1.0f, head_dim);
  for (int64_t i = 0; i < head_dim; i += lanes) {
    store_narrow(to + i, _mm512_loadu_ps(wide + i), first_lanes(head_dim - i));
  }
}

// Packs n rows, a multiple of 16, into panels; `words` is a multiple of 8.
TERRACE_AVX512_INLINE void rows_to_panels(const float* rows, int64_t n, int64_t words, float* panels) {
  for (int64_t row = 0; row < n; row += lanes, rows += lanes * words, panels += lanes * words) {
    for (int64_t word = 0; word < words; word += lanes) {
      const int64_t count = std::min(lanes, words - word);
      const __mmask16 mask = first_lanes(count);
      __m512 x[lanes];
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) x[i] = _mm512_maskz_loadu_ps(mask, rows + i * words + word);
      transpose(x);
      float* to = panels + word * lanes;
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) {
        if (i < count) _mm512_storeu_ps(to + i * lanes, x[i]);
      }
    }
  }
}

// Packs n rows of bf16, a multiple of 16, into pairs.
TERRACE_AVX512_INLINE void rows_to_pairs(const float* rows, int64_t n, int64_t width, float* pairs) {
  const auto* from = reinterpret_cast<const uint16_t*>(rows);
  for (int64_t row = 0; row < n; row += 2, from += 2 * width, pairs += width) {
    for (int64_t i = 0; i < width; i += lanes) {
      const auto *first = reinterpret_cast<const __m256i*>(from + i),
                 *second = reinterpret_cast<const __m256i*>(from + width + i);
      _mm512_storeu_si512(pairs + i, interleaved(_mm256_loadu_si256(first), _mm256_loadu_si256(second)));
    }
  }
}

}  // namespace terrace::ops::cpu
