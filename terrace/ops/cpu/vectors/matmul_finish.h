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

// The sums of terms of a row over every weight_columns columns.
template <bool whole>
TERRACE_VECTOR_INLINE void store_sums_of_terms(const Finish& finish, const Tile& tile, int64_t i,
                                               const PanelRow& terms) {
  constexpr int64_t together = weight_columns / lanes;  // vectors
  static_assert(panel_vectors % together == 0);
  OneVector parts[panel_vectors];
  divide(whole ? terms : first_of(terms, tile.columns), parts);
  float* sums = finish.sums + i * finish.sums_stride + tile.column / weight_columns;
#pragma GCC unroll 4
  for (int64_t v = 0; v < panel_vectors; v += together) {
    if (!whole && v * lanes >= tile.columns) return;
    OneVector sum = parts[v];
    if constexpr (together == 2) sum = sum + parts[v + 1];
    sums[v / together] = sum_of(sum);
  }
}

// The slopes of GELU or SwiGLU with the weight of the row.
template <typename T, bool whole>
TERRACE_VECTOR_INLINE void finish_weighted_gelu_backward(const Finish& finish, const Tile& tile, int64_t i,
                                                         const PanelRow& value) {
  const T* inner = static_cast<const T*>(finish.inner) + i * finish.inner_stride + tile.column;
  T* out = static_cast<T*>(finish.out) + i * finish.out_stride + tile.column;
  const PanelRow x = load_row<whole>(inner, tile.columns);
  store_sums_of_terms<whole>(finish, tile, i, PanelRow(value * gelu<T>(x)));
  store_row<whole>(out, PanelRow(value * broadcast(finish.weights[i]) * gelu_slope<T>(x)), tile.columns);
}

template <typename T, bool whole>
TERRACE_VECTOR_INLINE void finish_weighted_swiglu_backward(const Finish& finish, const Tile& tile, int64_t i,
                                                           const PanelRow& value) {
  const T* inner = static_cast<const T*>(finish.inner) + i * finish.inner_stride + 2 * tile.column;
  T* out = static_cast<T*>(finish.out) + i * finish.out_stride + 2 * tile.column;
  const OneVector weight = broadcast(finish.weights[i]);
  OneVector slopes[panel_vectors], terms[panel_vectors];
  divide(value, slopes);
#pragma GCC unroll 4
  for (int64_t v = 0; v < panel_vectors; ++v) {
    const int64_t at = 2 * v * lanes, pairs = whole ? lanes : tile.columns - v * lanes;
    const Gated<OneVector> x = load_pairs(inner + at, pairs);
    terms[v] = slopes[v] * swiglu<T>(x);
    store_pairs(out + at, swiglu_slopes<T>(OneVector(slopes[v] * weight), x), pairs);
  }
  store_sums_of_terms<whole>(finish, tile, i, joined(terms));
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
  } else if constexpr (kind == Kind::weighted_gelu) {
    store_row<whole>(inner + tile.column, value, count);
    store_row<whole>(out + tile.column, PanelRow(gelu<T>(rounded<T>(value)) * broadcast(finish.weights[i])), count);
  } else if constexpr (kind == Kind::weighted_gelu_backward) {
    finish_weighted_gelu_backward<T, whole>(finish, tile, i, value);
  } else if constexpr (kind == Kind::weighted_swiglu) {
    store_row<whole>(inner + tile.column, value, count);
    const auto active = swiglu<T>(pairs_of(rounded<T>(value)));
    store_row<whole>(out + tile.column / 2, active * broadcast(finish.weights[i]), count / 2);
  } else if constexpr (kind == Kind::weighted_swiglu_backward) {
    finish_weighted_swiglu_backward<T, whole>(finish, tile, i, value);
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
