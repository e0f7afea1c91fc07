// Packs factors in the order in which the product's inner loop reads them, in words along k (see vectors.h).
#pragma once

#include <algorithm>
#include <cstdint>

#include "terrace/ops/cpu/matmul.h"
#include "terrace/ops/cpu/vectors/vectors.h"

namespace terrace::ops::cpu::TERRACE_VECTOR_SET {

constexpr int64_t group_rows = 6;  // rows of A in a tile
constexpr int64_t panel_columns = panel_vectors * lanes;

// The number of groups of rows, and of panels of columns, with an incomplete last one.
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
  TERRACE_VECTOR_INLINE void next() {
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

  // One word of each of as many neighbours in the other dimension of a matrix [k, other] as a vector has lanes; zeros
  // beyond the first `count`.
  TERRACE_VECTOR_INLINE OneVector across(int64_t step, int64_t other, int64_t count) const {
    const T* row = data_ + step * word_elements<T> * stride_ + other;
    if constexpr (word_elements<T> == 1) {
      return load_wide(row, count);
    } else {
      const bool last = 2 * step + 1 == k_;
      return load_pairs_of_rows(row, last ? nullptr : row + stride_, count);
    }
  }

  // Prefetches what across() will read; `step` may lie beyond k.
  TERRACE_VECTOR_INLINE void fetch(int64_t step, int64_t other) const {
    const T* row = data_ + step * word_elements<T> * stride_ + other;
    _mm_prefetch(row, _MM_HINT_T0);
    if constexpr (word_elements<T> == 2) _mm_prefetch(row + stride_, _MM_HINT_T0);
  }

  // A vector of steps of one row of a matrix [other, k]; zeros beyond k.
  TERRACE_VECTOR_INLINE OneVector along(int64_t step, int64_t other) const {
    return load_words(data_ + other * stride_ + step * word_elements<T>, k_ - step * word_elements<T>);
  }

  // The memory that these steps of [first, end) in the other dimension take.
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

// Packs these steps of `panels` panels of B, from column `left` on, into [steps][panel_columns] words each, with zeros
// beyond n. A panel begins `panel_words` after the one before.
template <typename T>
TERRACE_VECTOR_CODE void pack_panels(const Words<T>& b, bool k_inner, int64_t left, int64_t panels, int64_t n,
                                     const Steps& steps, int64_t panel_words, uint32_t* to) {
  if (!k_inner) {
    // Row by row over all panels, since neighbours in a row are neighbours in memory.
    for (int64_t step = steps.first; step < steps.end; ++step, to += panel_columns) {
      for (int64_t at = 0; at < panels * panel_columns; at += lanes) {
        b.fetch(step + 24, left + at);
        store(to + at / panel_columns * panel_words + at % panel_columns,
              b.across(step, left + at, std::max<int64_t>(n - left - at, 0)));
      }
    }
    return;
  }
  for (int64_t panel = 0; panel < panels; ++panel, to += panel_words) {
    for (int64_t vector = 0; vector < panel_columns; vector += lanes) {
      const int64_t first = left + panel * panel_columns + vector, count = std::clamp<int64_t>(n - first, 0, lanes);
      for (int64_t step = steps.first; step < steps.end; step += lanes) {
        OneVector square[lanes];
        for (int64_t i = 0; i < lanes; ++i) {
          square[i] = i < count ? b.along(step, first + i) : zeros();
        }
        transpose(square);
        const int64_t rows = std::min(lanes, steps.end - step);
        for (int64_t i = 0; i < rows; ++i) {
          store(to + (step - steps.first + i) * panel_columns + vector, square[i]);
        }
      }
    }
  }
}

// Rows of A [k, m] that are packed at a time, whole groups: so many that little of the cache lines at their ends is
// read twice.
constexpr int64_t strip_rows = 48;

// Packs rows [top, top + rows) of A [k, m], at most strip_rows, into groups of [steps][6] words. Writes up to two words
// beyond the end of each group.
template <typename T>
TERRACE_VECTOR_CODE void pack_strip(const Words<T>& a, int64_t top, int64_t rows, int64_t group_words, uint32_t* to) {
  constexpr int64_t line_rows = 3 * lanes;  // whole groups too
  const int64_t steps = a.steps();
  for (int64_t step = 0; step < steps; ++step) {
    for (int64_t row = 0; row < rows; row += line_rows) {
      OneVector line[3];
      for (int64_t vector = 0; vector < 3; ++vector) {
        const int64_t first = row + vector * lanes;
        a.fetch(step + 6, top + first);
        line[vector] = first < rows ? a.across(step, top + first, rows - first) : zeros();
      }
      store_groups(line, groups_in(rows - row), group_words, to + row / group_rows * group_words + step * group_rows);
    }
  }
}

// Packs any number of rows as pack_strip() does.
template <typename T>
void pack_groups(const Words<T>& a, int64_t top, int64_t rows, int64_t group_words, uint32_t* to) {
  for (int64_t row = 0; row < rows; row += strip_rows) {
    pack_strip(a, top + row, std::min(strip_rows, rows - row), group_words, to + row / group_rows * group_words);
  }
}

// Packs rows of A [m, k]; an incomplete last pair ends with a zero.
template <typename T>
TERRACE_VECTOR_CODE void pack_rows(const Words<T>& a, int64_t top, int64_t rows, uint32_t* to) {
  const int64_t steps = a.steps();
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t step = 0; step < steps; step += lanes) {
      store(to + row * steps + step, a.along(step, top + row), steps - step);
    }
  }
}

}  // namespace terrace::ops::cpu::TERRACE_VECTOR_SET
