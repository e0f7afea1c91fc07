// The inner loops of matrix products: sums of a tile of C that stay in registers, while what is used next is fetched.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "terrace/ops/cpu/matmul.h"
#include "terrace/ops/cpu/vectors/matmul_finish.h"
#include "terrace/ops/cpu/vectors/matmul_pack.h"
#include "terrace/ops/cpu/vectors/vectors.h"

namespace terrace::ops::cpu::TERRACE_VECTOR_SET {

constexpr int64_t tile_floats = group_rows * panel_columns;

// A tile fetches some cache lines of what is used next before every so many steps: many at once would wait for memory.
constexpr int64_t steps_of_fetch = 16;

constexpr int64_t fetches_in(int64_t steps) { return (steps + steps_of_fetch - 1) / steps_of_fetch; }

struct Fetches {
  FetchAhead rows;     // of A, after those of the tile
  FetchAhead columns;  // of B, after those of the tile
  FetchAhead out;      // what finish_tile() will write
  FetchAhead inner;

  TERRACE_VECTOR_INLINE void next() {
    rows.next();
    columns.next();
    out.next<1>();
    inner.next();
  }
};

// The order in memory of the words of A that a tile multiplies.
enum class RowOrder {
  rows,    // word (row, step) at row * row_words + step
  groups,  // at step * group_rows + row
};

// The words that a tile multiplies.
struct TileWords {
  const uint32_t* a;
  RowOrder order;
  int64_t row_words;
  const uint32_t* panel;
  int64_t steps;
  const float* begin;  // what the sums begin with, row by row of a panel; null: zero
};

template <typename T, RowOrder order, int Rows, int Vectors>
TERRACE_VECTOR_INLINE void add_steps(const TileWords& words, Fetches& fetches, OneVector (&sum)[Rows][Vectors]) {
  const int64_t steps = words.steps, row_words = words.row_words;
  const uint32_t *a = words.a, *panel = words.panel;
  for (int64_t step = 0; step < steps;) {
    fetches.next();
    for (const int64_t stop = std::min(steps, step + steps_of_fetch); step < stop; ++step) {
      OneVector b[Vectors];
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) b[v] = load(panel + step * panel_columns + v * lanes);
#pragma GCC unroll 6
      for (int row = 0; row < Rows; ++row) {
        const uint32_t word = order == RowOrder::rows ? a[row * row_words + step] : a[step * group_rows + row];
        const OneVector x = broadcast_word(word);
#pragma GCC unroll 4
        for (int v = 0; v < Vectors; ++v) sum[row][v] = multiply_add<T>(x, b[v], sum[row][v]);
      }
    }
  }
}

// Sums the first `Vectors` vectors of columns of a tile of `Rows` rows.
template <typename T, int Rows, int Vectors>
TERRACE_VECTOR_INLINE void sum_tile(const TileWords& words, Fetches& fetches, OneVector (&sum)[Rows][Vectors]) {
#pragma GCC unroll 6
  for (int row = 0; row < Rows; ++row) {
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) {
      sum[row][v] = words.begin ? load(words.begin + row * panel_columns + v * lanes) : zeros();
    }
  }
  if (words.order == RowOrder::rows) {
    add_steps<T, RowOrder::rows>(words, fetches, sum);
  } else {
    add_steps<T, RowOrder::groups>(words, fetches, sum);
  }
}

template <typename T, int Rows, int Vectors>
TERRACE_VECTOR_CODE void multiply_tile(const TileWords& words, float* sums, Fetches& fetches) {
  OneVector sum[Rows][Vectors];
  sum_tile<T>(words, fetches, sum);
#pragma GCC unroll 6
  for (int row = 0; row < Rows; ++row) {
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) store(sums + row * panel_columns + v * lanes, sum[row][v]);
  }
}

// Multiplies a whole tile and finishes it straight from its registers: where k is small, storing and loading its sums
// again would take a twentieth of the time.
template <typename T, typename Out, Finish::Kind kind>
TERRACE_VECTOR_CODE void multiply_whole_tile(const TileWords& words, const Finish& finish, const Tile& tile,
                                             Fetches& fetches) {
  OneVector sum[group_rows][panel_vectors];
  sum_tile<T>(words, fetches, sum);
  if (finish.factors) {
#pragma GCC unroll 6
    for (int64_t row = 0; row < group_rows; ++row) {
      const OneVector factor = broadcast(finish.factors[tile.row + row]);
#pragma GCC unroll 4
      for (int64_t v = 0; v < panel_vectors; ++v) sum[row][v] = sum[row][v] * factor;
    }
  }
  if (const T* bias = static_cast<const T*>(finish.bias)) {
#pragma GCC unroll 4
    for (int64_t v = 0; v < panel_vectors; ++v) {
      const OneVector of_columns = load_wide(bias + tile.column + v * lanes);
#pragma GCC unroll 6
      for (int64_t row = 0; row < group_rows; ++row) sum[row][v] = sum[row][v] + of_columns;
    }
  }
#pragma GCC unroll 6
  for (int64_t row = 0; row < group_rows; ++row) {
    finish_row<T, Out, kind, true>(finish, tile, tile.row + row, joined(sum[row]));
  }
}

// The functions that compute the tiles of a product.
struct TileKernels {
  void (*multiply_whole)(const TileWords&, const Finish&, const Tile&, Fetches&);
  void (*finish)(const Finish&, const Tile&, const float*);
};

template <typename T, typename Out, Finish::Kind kind>
constexpr TileKernels kernels_of{multiply_whole_tile<T, Out, kind>, finish_tile<T, Out, kind>};

template <typename T>
TileKernels tile_kernels(const Finish& finish) {
  using Kind = Finish::Kind;
  const bool wide = finish.out_type == c10::ScalarType::Float;
  switch (finish.kind) {
    case Kind::store:
      return wide ? kernels_of<T, float, Kind::store> : kernels_of<T, T, Kind::store>;
    case Kind::accumulate:
      return wide ? kernels_of<T, float, Kind::accumulate> : kernels_of<T, T, Kind::accumulate>;
    case Kind::gelu:
      return kernels_of<T, T, Kind::gelu>;
    case Kind::gelu_backward:
      return kernels_of<T, T, Kind::gelu_backward>;
    case Kind::swiglu:
      return kernels_of<T, T, Kind::swiglu>;
    case Kind::swiglu_backward:
      return kernels_of<T, T, Kind::swiglu_backward>;
    case Kind::exponentials:
      return kernels_of<T, T, Kind::exponentials>;
    case Kind::weighted_gelu:
      return kernels_of<T, T, Kind::weighted_gelu>;
    case Kind::weighted_gelu_backward:
      return kernels_of<T, T, Kind::weighted_gelu_backward>;
    case Kind::weighted_swiglu:
      return kernels_of<T, T, Kind::weighted_swiglu>;
    case Kind::weighted_swiglu_backward:
      return kernels_of<T, T, Kind::weighted_swiglu_backward>;
  }
  __builtin_unreachable();
}

// The part of a matrix that a tile takes. Inlined, since the result would be loaded in larger words than it is stored
// in, which waits for the stores.
__attribute__((always_inline)) inline FetchAhead part_of(const void* matrix, int64_t stride, int64_t element_bytes,
                                                         const Tile& tile) {
  return {static_cast<const char*>(matrix) + (tile.row * stride + tile.column) * element_bytes,
          tile.columns * element_bytes, stride * element_bytes, tile.rows};
}

using MultiplyTile = void (*)(const TileWords&, float*, Fetches&);

// Functions for all sizes of tiles, by rows and vectors of columns, both from 1.
template <typename T, size_t... sizes>
constexpr std::array<MultiplyTile, sizeof...(sizes)> all_tiles(std::index_sequence<sizes...>) {
  return {
      multiply_tile<T, 1 + static_cast<int>(sizes / panel_vectors), 1 + static_cast<int>(sizes % panel_vectors)>...};
}

template <typename T>
MultiplyTile multiply_tile_of(const Tile& tile) {
  static constexpr auto tiles = all_tiles<T>(std::make_index_sequence<group_rows * panel_vectors>());
  return tiles[static_cast<size_t>((tile.rows - 1) * panel_vectors + (tile.columns - 1) / lanes)];
}

// The tiles of C, and what is done with each.
template <typename T>
class Tiles {
 public:
  Tiles(int64_t m, int64_t n, const Finish& finish)
      : m_(m),
        n_(n),
        finish_(finish),
        element_bytes_(static_cast<int64_t>(c10::elementSize(finish.out_type))),
        kernels_(tile_kernels<T>(finish)) {}

  // The tile of a group of rows and a panel, without rows or columns beyond the end of C.
  Tile at(int64_t group, int64_t panel) const {
    const int64_t row = group * group_rows, column = panel * panel_columns;
    return {row, column, std::clamp<int64_t>(m_ - row, 0, group_rows),
            std::clamp<int64_t>(n_ - column, 0, panel_columns)};
  }

  // Multiplies the last words along k and finishes the tile. `sums` is scratch of tile_floats.
  void finish(const TileWords& words, const Tile& tile, float* sums, Fetches& fetches) const {
    if (tile.rows == group_rows && tile.columns == panel_columns) {
      kernels_.multiply_whole(words, finish_, tile, fetches);
    } else {
      multiply_tile_of<T>(tile)(words, sums, fetches);
      kernels_.finish(finish_, tile, sums);
    }
  }

  // Lets `fetches` bring what finishing the tile will use, in so many times.
  void fetch(const Tile& tile, int64_t times, Fetches& fetches) const {
    Tile out = tile, inner = tile;
    if (halves_columns(finish_.kind)) out.column /= 2, out.columns /= 2;
    if (doubles_columns(finish_.kind)) out.column *= 2, out.columns *= 2, inner = out;
    fetches.out = part_of(finish_.out, finish_.out_stride, element_bytes_, out);
    fetches.out.divide(times);
    if (finish_.inner == nullptr) return;
    fetches.inner = part_of(finish_.inner, finish_.inner_stride, sizeof(T), inner);
    fetches.inner.divide(times);
  }

 private:
  int64_t m_, n_;
  Finish finish_;
  int64_t element_bytes_;  // of C
  TileKernels kernels_;
};

}  // namespace terrace::ops::cpu::TERRACE_VECTOR_SET
