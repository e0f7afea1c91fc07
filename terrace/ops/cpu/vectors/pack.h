// Packs rows of a head in the orders in which the tiles of attention read them, with rotation, and unpacks gradients.
//
// There are three orders of n rows of hd elements, padded with zeros to a width that is a multiple of `lanes`, or
// W = width / word_elements words:
//   rows    [n][W], as in the joint projection
//   panels  [n / lanes][W][lanes]: words along hd, for products that sum over hd
//   pairs   [n / word_elements][width]: words along the rows, for products that sum over rows; in fp32 the same as rows
#pragma once

#include <algorithm>
#include <cstring>

#include "terrace/ops/attention/attention_kernels.h"
#include "terrace/ops/cpu/vectors/tiles.h"

namespace terrace::ops::cpu::TERRACE_VECTOR_SET {

constexpr int64_t line_bytes = 64;

// The rotary positions of one sequence; see ops/attention/attention.h.
struct Rotation {
  const float* cosines = nullptr;  // null: no rotation
  const float* sines = nullptr;
  const int64_t* positions = nullptr;  // null: 0 .. T-1
};

TERRACE_VECTOR_INLINE void rotate_row(float* row, const Rotation& rotation, int64_t t, float direction,
                                      int64_t head_dim) {
  const int64_t half = head_dim / 2, position = rotation.positions ? rotation.positions[t] : t;
  const float *cosines = rotation.cosines + position * half, *sines = rotation.sines + position * half;
  for (int64_t i = 0; i < half; i += lanes) {
    const int64_t count = half - i;
    const OneVector first = load(row + i, count), second = load(row + half + i, count);
    const OneVector cosine = load(cosines + i, count), sine = load(sines + i, count) * broadcast(direction);
    store(row + i, times_minus(first, cosine, second * sine), count);
    store(row + half + i, times_plus(second, cosine, first * sine), count);
  }
}

// Prefetches a row of a head well before its use, since the processor's own prefetch does not recognize rows so far
// apart. Prefetch for writing also makes the lines exclusive to this core.
template <bool for_writing, typename T>
TERRACE_VECTOR_INLINE void prefetch_row(const T* row, int64_t width) {
  for (int64_t column = 0; column < width; column += line_bytes / static_cast<int64_t>(sizeof(T))) {
    __builtin_prefetch(row + column, for_writing, 3);
  }
}

// Copies a row, and zeros up to its width.
template <typename T>
TERRACE_VECTOR_INLINE void copy_row(const T* from, int64_t head_dim, Operand<T>* to) {
  for (int64_t i = 0; i < head_dim; i += lanes) copy_operands(from + i, head_dim - i, to + i);
}

// Copies rows [begin, end) of the head whose row 0 is at `head`, and zeros up to a multiple of `lanes`
// rows.
template <typename T>
TERRACE_VECTOR_INLINE void gather_rows(const T* head, int64_t stride, int64_t begin, int64_t end,
                                       const Rotation& rotation, int64_t head_dim, float* rows) {
  const int64_t words = (head_dim + lanes - 1) / lanes * lanes / word_elements<T>;
  for (int64_t t = begin; t < end; ++t, rows += words) {
    const T* from = head + t * stride;
    if (!rotation.cosines) {
      copy_row(from, head_dim, reinterpret_cast<Operand<T>*>(rows));
      continue;
    }
    float wide[largest_head_dim];
    for (int64_t i = 0; i < head_dim; i += lanes) {
      store(wide + i, load_wide(from + i, head_dim - i));
    }
    rotate_row(wide, rotation, t, 1.0f, head_dim);
    for (int64_t i = 0; i < head_dim; i += lanes) {
      store_narrow(reinterpret_cast<Operand<T>*>(rows) + i, load(wide + i));
    }
  }
  const int64_t missing = -(end - begin) & (lanes - 1);
  std::memset(rows, 0, missing * words * sizeof(float));
}

// A row of a head's gradient: fp32 sums times `factor`, rotated back.
TERRACE_VECTOR_INLINE void rotate_sums(const float* sums, float factor, const Rotation& rotation, int64_t t,
                                       int64_t head_dim, float* wide) {
  for (int64_t i = 0; i < head_dim; i += lanes) {
    store(wide + i, load(sums + i) * broadcast(factor));
  }
  if (rotation.cosines) rotate_row(wide, rotation, t, -1.0f, head_dim);
}

// Writes it in the type T.
template <typename T>
TERRACE_VECTOR_INLINE void scatter_row(const float* sums, float factor, const Rotation& rotation, int64_t t,
                                       int64_t head_dim, T* to) {
  float wide[largest_head_dim];
  rotate_sums(sums, factor, rotation, t, head_dim, wide);
  for (int64_t i = 0; i < head_dim; i += lanes) {
    store_narrow(to + i, load(wide + i), head_dim - i);
  }
}

// Adds it to a row of fp32.
TERRACE_VECTOR_INLINE void add_row(const float* sums, float factor, const Rotation& rotation, int64_t t,
                                   int64_t head_dim, float* to) {
  float wide[largest_head_dim];
  rotate_sums(sums, factor, rotation, t, head_dim, wide);
  for (int64_t i = 0; i < head_dim; i += lanes) {
    store(to + i, load(to + i, head_dim - i) + load(wide + i), head_dim - i);
  }
}

// Packs n rows, a multiple of `lanes`, into panels; `words` is a multiple of 8.
TERRACE_VECTOR_INLINE void rows_to_panels(const float* rows, int64_t n, int64_t words, float* panels) {
  for (int64_t row = 0; row < n; row += lanes, rows += lanes * words, panels += lanes * words) {
    for (int64_t word = 0; word < words; word += lanes) {
      const int64_t count = std::min(lanes, words - word);
      OneVector x[lanes];
#pragma GCC unroll 16
      for (int i = 0; i < lanes; ++i) x[i] = load(rows + i * words + word, count);
      transpose(x);
      float* to = panels + word * lanes;
#pragma GCC unroll 16
      for (int i = 0; i < lanes; ++i) {
        if (i < count) store(to + i * lanes, x[i]);
      }
    }
  }
}

// Packs n rows of 16 bits, an even number, into pairs.
template <typename T>
TERRACE_VECTOR_INLINE void rows_to_pairs(const float* rows, int64_t n, int64_t width, float* pairs) {
  const auto* from = reinterpret_cast<const T*>(rows);
  for (int64_t row = 0; row < n; row += 2, from += 2 * width, pairs += width) {
    for (int64_t i = 0; i < width; i += lanes) {
      store(pairs + i, load_pairs_of_rows(from + i, from + width + i, lanes));
    }
  }
}

}  // namespace terrace::ops::cpu::TERRACE_VECTOR_SET
