// Packs factors in the order in which the product's inner loop reads them, in words along k (see vectors.h).
#pragma once

#include <algorithm>
#include <cstdint>

#include "terrace/ops/cpu/avx512/vectors.h"
#include "terrace/ops/cpu/matmul.h"

namespace terrace::ops::cpu {

constexpr int64_t group_rows = 6;  // rows of A in a tile
constexpr int64_t panel_columns = 64;

// How many there are, with an incomplete last one.
constexpr int64_t groups_in(int64_t rows) { return (rows + group_rows - 1) / group_rows; }
constexpr int64_t panels_in(int64_t columns) { return (columns + panel_columns - 1) / panel_columns; }

// Words along k.
struct Steps {
  int64_t first, end;

  int64_t count() const { return end - first; }
};

// Brings a part of a matrix into the caches, a few cache lines at a time, while other work uses what is there.
class FetchAhead {
 public:
  FetchAhead() = default;  // of nothing
  FetchAhead(const void* first, int64_t row_bytes, int64_t stride_bytes, int64_t rows)
      : row_(static_cast<const char*>(first)),
        row_bytes_(row_bytes),
        stride_bytes_(stride_bytes),
        rows_(row_bytes > 0 ? rows : 0) {
    const auto place = static_cast<int64_t>(reinterpret_cast<uintptr_t>(first));
    if ((place | stride_bytes) % cache_line != 0) row_bytes_ += cache_line - 1;  // its ends share lines with others
  }

  // Lets next() bring everything in so many times.
  void divide(int64_t times) {
    const int64_t lines = rows_ * ((row_bytes_ + cache_line - 1) / cache_line);
    lines_ = (lines + times - 1) / std::max<int64_t>(times, 1);
  }

  template <int writes = 0>
  TERRACE_AVX512_INLINE void next() {
    for (int64_t line = 0; line < lines_; ++line) {
      if (rows_ == 0) return;
      __builtin_prefetch(row_ + at_, writes, 3);
      at_ += cache_line;
      if (at_ >= row_bytes_) {
        at_ = 0;
        row_ += stride_bytes_;
        --rows_;
      }
    }
  }

 private:
  static constexpr int64_t cache_line = 64;

  const char* row_ = nullptr;
  int64_t row_bytes_ = 0, stride_bytes_ = 0, rows_ = 0;
  int64_t at_ = 0, lines_ = 0;  // bytes into the row, and lines each time
};

// Reads words of a matrix whose dimension k need not be contiguous.
template <typename T>
class Words {
 public:
  Words(const void* data, int64_t stride, int64_t k) : data_(static_cast<const T*>(data)), stride_(stride), k_(k) {}

  int64_t steps() const { return (k_ + word_elements<T> - 1) / word_elements<T>; }

  // One word of each of 16 neighbours in the other dimension of a matrix [k, other]; zeros beyond the first `count`.
  TERRACE_AVX512_INLINE __m512i across(int64_t step, int64_t other, int64_t count) const {
    const T* row = data_ + step * word_elements<T> * stride_ + other;
    const __mmask16 mask = first_lanes(count);
    if constexpr (word_elements<T> == 1) {
      return _mm512_maskz_loadu_epi32(mask, row);
    } else {
      const bool last = 2 * step + 1 == k_;
      return interleaved(_mm256_maskz_loadu_epi16(mask, row),
                         last ? _mm256_setzero_si256() : _mm256_maskz_loadu_epi16(mask, row + stride_));
    }
  }

  // Prefetches what across() will read; `step` may lie beyond k.
  TERRACE_AVX512_INLINE void fetch(int64_t step, int64_t other) const {
    const T* row = data_ + step * word_elements<T> * stride_ + other;
    _mm_prefetch(row, _MM_HINT_T0);
    if constexpr (word_elements<T> == 2) _mm_prefetch(row + stride_, _MM_HINT_T0);
  }

  // Sixteen steps of one row of a matrix [other, k]; zeros beyond k.
  TERRACE_AVX512_INLINE __m512i along(int64_t step, int64_t other) const {
    const T* at = data_ + other * stride_ + step * word_elements<T>;
    const int64_t left = k_ - step * word_elements<T>;
    if constexpr (word_elements<T> == 1) {
      return _mm512_maskz_loadu_epi32(first_lanes(left), at);
    } else {
      return _mm512_maskz_loadu_epi16(left >= 32 ? 0xFFFFFFFFU : (1U << left) - 1U, at);
    }
  }

  // What these steps of [first, end) in the other dimension take.
  FetchAhead part(bool k_inner, const Steps& steps, int64_t first, int64_t end) const {
    const int64_t k = steps.first * word_elements<T>, stop = std::min(k_, steps.end * word_elements<T>);
    constexpr int64_t bytes = sizeof(T);
    if (k_inner) return {data_ + first * stride_ + k, (stop - k) * bytes, stride_ * bytes, end - first};
    return {data_ + k * stride_ + first, (end - first) * bytes, stride_ * bytes, stop - k};
  }

 private:
  const T* data_;
  int64_t stride_;
  int64_t k_;
};

struct MatmulSize {
  int64_t m, n, k;
};

// The part of a factor from element k, and from this one in the other dimension.
template <typename T>
Factor from(Factor factor, int64_t k, int64_t other) {
  factor.data =
      static_cast<const T*>(factor.data) + (factor.k_inner ? other * factor.stride + k : k * factor.stride + other);
  return factor;
}

// The words of these elements along k.
template <typename T>
Words<T> words_from(const Factor& factor, int64_t k, int64_t length) {
  const Factor part = from<T>(factor, k, 0);
  return {part.data, part.stride, length};
}

// Packs these steps of `panels` panels of B, from column `left` on, into [steps][64] words each, with zeros beyond n. A
// panel begins `panel_words` after the one before.
template <typename T>
TERRACE_AVX512 void pack_panels(const Words<T>& b, bool k_inner, int64_t left, int64_t panels, int64_t n,
                                const Steps& steps, int64_t panel_words, uint32_t* to) {
  if (!k_inner) {
    // Row by row over all panels, since neighbours in a row are neighbours in memory.
    for (int64_t step = steps.first; step < steps.end; ++step, to += panel_columns) {
      for (int64_t at = 0; at < panels * panel_columns; at += lanes) {
        b.fetch(step + 24, left + at);
        _mm512_storeu_si512(to + at / panel_columns * panel_words + at % panel_columns,
                            b.across(step, left + at, std::max<int64_t>(n - left - at, 0)));
      }
    }
    return;
  }
  for (int64_t panel = 0; panel < panels; ++panel, to += panel_words) {
    for (int64_t vector = 0; vector < panel_columns; vector += lanes) {
      const int64_t first = left + panel * panel_columns + vector, count = std::clamp<int64_t>(n - first, 0, lanes);
      for (int64_t step = steps.first; step < steps.end; step += lanes) {
        __m512 square[lanes];
        for (int64_t i = 0; i < lanes; ++i) {
          square[i] = i < count ? _mm512_castsi512_ps(b.along(step, first + i)) : _mm512_setzero_ps();
        }
        transpose(square);
        const int64_t rows = std::min(lanes, steps.end - step);
        for (int64_t i = 0; i < rows; ++i) {
          _mm512_storeu_ps(to + (step - steps.first + i) * panel_columns + vector, square[i]);
        }
      }
    }
  }
}

// The words [6 g, 6 g + 8) of the 48 words in three vectors: for g = 2 `pair` in the lower half of the result, for
// g = 2 `pair` + 1 in the upper half.
template <int pair>
TERRACE_AVX512_INLINE __m512i two_groups(const __m512i (&line)[3]) {
  constexpr int first = 2 * pair * group_rows, vector = first / 16, at = first % 16;
  const __m512i order =
      _mm512_add_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 6, 7, 8, 9, 10, 11, 12, 13), _mm512_set1_epi32(at));
  return _mm512_permutex2var_epi32(line[vector], order, line[vector < 2 ? vector + 1 : vector]);
}

template <int pair>
TERRACE_AVX512_INLINE void store_two_groups(const __m512i (&line)[3], int64_t groups, int64_t group_words,
                                            uint32_t* to) {
  const __m512i words = two_groups<pair>(line);
  uint32_t* const place = to + 2 * pair * group_words;
  if (groups > 2 * pair) _mm256_storeu_si256(reinterpret_cast<__m256i*>(place), _mm512_castsi512_si256(words));
  if (groups > 2 * pair + 1) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(place + group_words), _mm512_extracti64x4_epi64(words, 1));
  }
}

// Rows of A [k, m] that are packed at a time: three vectors of them, which are eight groups.
constexpr int64_t strip_rows = 3 * lanes;

// Packs rows [top, top + rows) of A [k, m], at most strip_rows, into groups of [steps][6] words. Writes up to two words
// beyond the end of each group.
template <typename T>
TERRACE_AVX512 void pack_strip(const Words<T>& a, int64_t top, int64_t rows, int64_t group_words, uint32_t* to) {
  const int64_t steps = a.steps(), groups = groups_in(rows);
  for (int64_t step = 0; step < steps; ++step) {
    __m512i line[3];
    for (int64_t vector = 0; vector < 3; ++vector) {
      const int64_t first = vector * lanes;
      a.fetch(step + 6, top + first);
      line[vector] = first < rows ? a.across(step, top + first, rows - first) : _mm512_setzero_si512();
    }
    uint32_t* const place = to + step * group_rows;
    store_two_groups<0>(line, groups, group_words, place);
    store_two_groups<1>(line, groups, group_words, place);
    store_two_groups<2>(line, groups, group_words, place);
    store_two_groups<3>(line, groups, group_words, place);
  }
}

// The same for any number of rows.
template <typename T>
void pack_groups(const Words<T>& a, int64_t top, int64_t rows, int64_t group_words, uint32_t* to) {
  for (int64_t row = 0; row < rows; row += strip_rows) {
    pack_strip(a, top + row, std::min(strip_rows, rows - row), group_words, to + row / group_rows * group_words);
  }
}

// Packs rows of A [m, k]; an incomplete last pair ends with a zero.
template <typename T>
TERRACE_AVX512 void pack_rows(const Words<T>& a, int64_t top, int64_t rows, uint32_t* to) {
  const int64_t steps = a.steps();
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t step = 0; step < steps; step += lanes) {
      _mm512_mask_storeu_epi32(to + row * steps + step, first_lanes(steps - step), a.along(step, top + row));
    }
  }
}

}  // namespace terrace::ops::cpu
