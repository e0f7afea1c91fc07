// Sums of products of neighbouring elements: the dot products of several rows with several other rows at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "terrace/ops/cpu/vectors/vectors.h"

namespace terrace::ops::cpu::TERRACE_VECTOR_SET {

template <typename T>
constexpr int64_t vector_elements = lanes* word_elements<T>;

constexpr int64_t dot_outputs = 4;  // of a tile, whose sums stay in registers

// Adds to the sums the products of one vector of elements, or of the first `count` of a vector if it is not whole.
template <typename T, int Rows, bool whole>
TERRACE_VECTOR_INLINE void add_products(const T* x, int64_t x_stride, const T* const (&weight)[dot_outputs], int64_t at,
                                        int64_t count, OneVector (&sums)[Rows][dot_outputs]) {
  OneVector b[dot_outputs];
#pragma GCC unroll 4
  for (int o = 0; o < dot_outputs; ++o) {
    b[o] = whole ? load_words(weight[o] + at) : load_words(weight[o] + at, count);
  }
#pragma GCC unroll 6
  for (int row = 0; row < Rows; ++row) {
    const T* from = x + row * x_stride + at;
    const OneVector a = whole ? load_words(from) : load_words(from, count);
#pragma GCC unroll 4
    for (int o = 0; o < dot_outputs; ++o) sums[row][o] = multiply_add<T>(a, b[o], sums[row][o]);
  }
}

// out[row * out_stride + o] = x[row] . weight[o] over `inputs` elements, for `Rows` rows of x and four of the weight,
// of which only the first `outputs` are read. With `fetch_next` the four rows after them are prefetched.
template <typename T, int Rows>
TERRACE_VECTOR_CODE void dot_tile(const T* x, int64_t x_stride, const T* weight, int64_t weight_stride, int64_t outputs,
                                  int64_t inputs, bool fetch_next, float* out, int64_t out_stride) {
  const T* rows[dot_outputs];
  for (int64_t o = 0; o < dot_outputs; ++o) rows[o] = weight + (o < outputs ? o : 0) * weight_stride;
  OneVector sums[Rows][dot_outputs];
#pragma GCC unroll 6
  for (int row = 0; row < Rows; ++row) {
#pragma GCC unroll 4
    for (int o = 0; o < dot_outputs; ++o) sums[row][o] = zeros();
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
    store_sums(out + row * out_stride, sums[row][0], sums[row][1], sums[row][2], sums[row][3]);
  }
}

template <typename T>
using DotTile = void (*)(const T*, int64_t, const T*, int64_t, int64_t, int64_t, bool, float*, int64_t);

template <typename T, size_t... rows>
constexpr std::array<DotTile<T>, sizeof...(rows)> all_dot_tiles(std::index_sequence<rows...>) {
  return {dot_tile<T, 1 + static_cast<int>(rows)>...};
}

// The tile for 1 to dot_rows rows.
template <typename T>
DotTile<T> dot_tile_of(int64_t rows) {
  static constexpr auto tiles = all_dot_tiles<T>(std::make_index_sequence<dot_rows>());
  return tiles[static_cast<size_t>(rows - 1)];
}

}  // namespace terrace::ops::cpu::TERRACE_VECTOR_SET
