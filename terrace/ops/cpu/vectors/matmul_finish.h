// Finishes the sums of a tile of a product while they are in registers or in the cache: bias, activation, accumulation
// or exponentials.
#pragma once

#include <algorithm>
#include <cstdint>

#include "terrace/ops/cpu/matmul.h"
#include "terrace/ops/cpu/vectors/gelu.h"
#include "terrace/ops/cpu/vectors/lockstep.h"
#include "terrace/ops/cpu/vectors/matmul_pack.h"
#include "terrace/ops/cpu/vectors/swiglu.h"
#include "terrace/ops/cpu/vectors/vectors.h"

namespace terrace::ops::cpu::TERRACE_VECTOR_SET {

static_assert(panel_columns == numbers_in<PanelRow>);
static_assert(sum_columns % panel_columns == 0);

// The place of a tile in C.
struct Tile {
  int64_t row, column, rows, columns;
};

// Load and store a row of a tile: a whole one, or `count` numbers.
template <bool whole, typename T>
TERRACE_VECTOR_INLINE PanelRow load_row(const T* from, int64_t count) {
  return whole ? load_all<PanelRow>(from) : load_first<PanelRow>(from, count);
}

template <bool whole, typename T, typename V>
TERRACE_VECTOR_INLINE void store_row(T* to, const V& value, int64_t count) {
  whole ? store_all(to, value) : store_first(to, value, count);
}

// The exponentials of a row, of which only columns before finish.counted count. Where a sum is over several panels, the
// first one begins it: the panels of a row are finished in their order.
template <typename T, bool whole>
TERRACE_VECTOR_INLINE void store_exponentials(const Finish& finish, const Tile& tile, int64_t i,
                                              const PanelRow& value) {
  const int64_t counted = std::min(tile.columns, finish.counted - tile.column);
  PanelRow powers = exponential<T>(PanelRow(value - broadcast(finish.references[i])));
  if (counted < panel_columns) powers = first_of(powers, counted);
  store_row<whole>(static_cast<T*>(finish.out) + i * finish.out_stride + tile.column, powers, tile.columns);
  float& sum = finish.sums[i * finish.sums_stride + tile.column / sum_columns];
  const float of_panel = sum_of(sum_of_vectors(powers));
  sum = tile.column % sum_columns == 0 ? of_panel : sum + of_panel;
}

// Finishes row i of C in the tile's columns, which are a whole panel's or fewer. The bias is in `value` already.
template <typename T, typename Out, Finish::Kind kind, bool whole>
TERRACE_VECTOR_INLINE void finish_row(const Finish& finish, const Tile& tile, int64_t i, const PanelRow& value) {
  using Kind = Finish::Kind;
  const int64_t count = tile.columns;
  [[maybe_unused]] Out* out = static_cast<Out*>(finish.out) + i * finish.out_stride;
  [[maybe_unused]] T* inner = static_cast<T*>(finish.inner) + i * finish.inner_stride;
  if constexpr (kind == Kind::store) {
    store_row<whole>(out + tile.column, value, count);
  } else if constexpr (kind == Kind::accumulate) {
    store_row<whole>(out + tile.column, load_row<whole>(out + tile.column, count) + value, count);
  } else if constexpr (kind == Kind::gelu) {
    store_row<whole>(inner + tile.column, value, count);
    // A load of what was just stored would wait for the store.
    store_row<whole>(out + tile.column, gelu<T>(rounded<T>(value)), count);
  } else if constexpr (kind == Kind::gelu_backward) {
    store_row<whole>(out + tile.column, value * gelu_slope<T>(load_row<whole>(inner + tile.column, count)), count);
  } else if constexpr (kind == Kind::swiglu) {
    store_row<whole>(inner + tile.column, value, count);
    store_row<whole>(out + tile.column / 2, swiglu<T>(pairs_of(rounded<T>(value))), count / 2);
  } else if constexpr (kind == Kind::swiglu_backward) {
    OneVector slopes[panel_vectors];
    divide(value, slopes);
#pragma GCC unroll 4
    for (int64_t v = 0; v < panel_vectors; ++v) {
      const int64_t at = 2 * (tile.column + v * lanes), pairs = whole ? lanes : count - v * lanes;
      store_pairs(out + at, swiglu_slopes<T>(slopes[v], load_pairs(inner + at, pairs)), pairs);
    }
  } else {
    store_exponentials<T, whole>(finish, tile, i, value);
  }
}

// Finishes a tile whose sums are in rows of a panel.
template <typename T, typename Out, Finish::Kind kind>
TERRACE_VECTOR_CODE void finish_tile(const Finish& finish, const Tile& tile, const float* sums) {
  for (int64_t row = 0; row < tile.rows; ++row, sums += panel_columns) {
    const int64_t i = tile.row + row;
    PanelRow value = load_all<PanelRow>(sums);
    if (finish.factors) value = value * broadcast(finish.factors[i]);
    if (const T* bias = static_cast<const T*>(finish.bias)) {
      value = value + load_row<false>(bias + tile.column, tile.columns);
    }
    if (tile.columns == panel_columns) {
      finish_row<T, Out, kind, true>(finish, tile, i, value);
    } else {
      finish_row<T, Out, kind, false>(finish, tile, i, value);
    }
  }
}

}  // namespace terrace::ops::cpu::TERRACE_VECTOR_SET
