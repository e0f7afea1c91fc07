// What is done with a tile of a product while its sums are in the cache: bias, activation, accumulation or
// exponentials.
#pragma once

#include <algorithm>
#include <cstdint>

#include "terrace/ops/cpu/avx512/gelu.h"
#include "terrace/ops/cpu/avx512/matmul_pack.h"
#include "terrace/ops/cpu/avx512/swiglu.h"
#include "terrace/ops/cpu/avx512/vectors.h"
#include "terrace/ops/cpu/matmul.h"

namespace terrace::ops::cpu {

constexpr int64_t vectors = panel_columns / lanes;  // of columns in a tile

// The place of a tile in C.
struct Tile {
  int64_t row, column, rows, columns;
};

template <typename T, typename Out>
TERRACE_AVX512 void finish_tile(const Finish& finish, const Tile& tile, const float* sums) {
  const T* bias = static_cast<const T*>(finish.bias);
  for (int64_t row = 0; row < tile.rows; ++row) {
    Out* out = static_cast<Out*>(finish.out) + (tile.row + row) * finish.out_stride + tile.column;
    T* inner = static_cast<T*>(finish.inner) + (tile.row + row) * finish.inner_stride + tile.column;
    for (int64_t at = 0; at < tile.columns; at += lanes) {
      const __mmask16 mask = first_lanes(tile.columns - at);
      __m512 value = _mm512_loadu_ps(sums + row * panel_columns + at);
      if (finish.factors) value = _mm512_mul_ps(value, _mm512_set1_ps(finish.factors[tile.row + row]));
      if (bias) value = _mm512_add_ps(value, load_wide(bias + tile.column + at, mask));
      switch (finish.kind) {
        case Finish::Kind::store:
          break;
        case Finish::Kind::accumulate:
          value = _mm512_add_ps(load_wide(out + at, mask), value);
          break;
        case Finish::Kind::gelu:
          store_narrow(inner + at, value, mask);
          value = rounded<T>(value);  // a load of what was just stored would wait for the store
          value = _mm512_mul_ps(value, gelu_share<T>(value, _mm512_mul_ps(value, value)).share);
          break;
        case Finish::Kind::gelu_backward:
          value = _mm512_mul_ps(value, gelu_slope<T>(load_wide(inner + at, mask)));
          break;
        case Finish::Kind::swiglu:
        case Finish::Kind::swiglu_backward:
        case Finish::Kind::exponentials:
          break;  // have functions of their own
      }
      store_narrow(out + at, value, mask);
    }
  }
}

template <typename T>
TERRACE_AVX512 void finish_swiglu(const Finish& finish, const Tile& tile, const float* sums) {
  const T* bias = static_cast<const T*>(finish.bias);
  for (int64_t row = 0; row < tile.rows; ++row) {
    T* out = static_cast<T*>(finish.out) + (tile.row + row) * finish.out_stride + tile.column / 2;
    T* inner = static_cast<T*>(finish.inner) + (tile.row + row) * finish.inner_stride + tile.column;
    for (int64_t at = 0; at < tile.columns; at += 2 * lanes) {
      __m512 half[2];
#pragma GCC unroll 2
      for (int64_t i = 0; i < 2; ++i) {
        const int64_t begin = at + i * lanes;
        const __mmask16 mask = first_lanes(std::max<int64_t>(tile.columns - begin, 0));
        half[i] = _mm512_loadu_ps(sums + row * panel_columns + begin);
        if (bias) half[i] = _mm512_add_ps(half[i], load_wide(bias + tile.column + begin, mask));
        store_narrow(inner + begin, half[i], mask);
        half[i] = rounded<T>(half[i]);
      }
      store_narrow(out + at / 2, swiglu<T>(pairs_of(half[0], half[1])), first_lanes((tile.columns - at) / 2));
    }
  }
}

template <typename T>
TERRACE_AVX512 void finish_swiglu_backward(const Finish& finish, const Tile& tile, const float* sums) {
  for (int64_t row = 0; row < tile.rows; ++row) {
    T* out = static_cast<T*>(finish.out) + (tile.row + row) * finish.out_stride + 2 * tile.column;
    const T* inner = static_cast<T*>(finish.inner) + (tile.row + row) * finish.inner_stride + 2 * tile.column;
    for (int64_t at = 0; at < tile.columns; at += lanes) {
      const __m512 slope = _mm512_loadu_ps(sums + row * panel_columns + at);
      const int64_t count = tile.columns - at;
      store_pairs(out + 2 * at, swiglu_slopes<T>(slope, load_pairs(inner + 2 * at, count)), count);
    }
  }
}

// The exponentials of a row of the tile, whose first `counted` columns count; `whole` if these are all of a panel. The
// vectors are computed side by side.
template <typename T, bool whole>
TERRACE_AVX512_INLINE void store_exponentials(const Finish& finish, const Tile& tile, int64_t row, int64_t counted,
                                              const float* sums) {
  T* out = static_cast<T*>(finish.out) + (tile.row + row) * finish.out_stride + tile.column;
  const __m512 reference = _mm512_set1_ps(finish.references[tile.row + row]);
  __m512 value[vectors];
#pragma GCC unroll 4
  for (int64_t v = 0; v < vectors; ++v) {
    const int64_t at = v * lanes;
    value[v] = exponential<T>(_mm512_sub_ps(_mm512_loadu_ps(sums + row * panel_columns + at), reference));
    if constexpr (whole) {
      store_narrow(out + at, value[v]);
    } else {
      value[v] = _mm512_maskz_mov_ps(first_lanes(std::max<int64_t>(counted - at, 0)), value[v]);
      store_narrow(out + at, value[v], first_lanes(std::max<int64_t>(tile.columns - at, 0)));
    }
  }
  finish.sums[(tile.row + row) * finish.sums_stride + tile.column / sum_columns] =
      _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(value[0], value[1]), _mm512_add_ps(value[2], value[3])));
}

template <typename T>
TERRACE_AVX512 void finish_exponentials(const Finish& finish, const Tile& tile, const float* sums) {
  static_assert(panel_columns == sum_columns);
  const int64_t counted = std::min(tile.columns, finish.counted - tile.column);
  if (counted == panel_columns) {
    for (int64_t row = 0; row < tile.rows; ++row) store_exponentials<T, true>(finish, tile, row, counted, sums);
  } else {
    for (int64_t row = 0; row < tile.rows; ++row) store_exponentials<T, false>(finish, tile, row, counted, sums);
  }
}

using FinishTile = void (*)(const Finish&, const Tile&, const float*);

template <typename T>
FinishTile finish_tile_of(const Finish& finish) {
  switch (finish.kind) {
    case Finish::Kind::swiglu:
      return finish_swiglu<T>;
    case Finish::Kind::swiglu_backward:
      return finish_swiglu_backward<T>;
    case Finish::Kind::exponentials:
      return finish_exponentials<T>;
    default:
      return finish.out_type == c10::ScalarType::Float ? finish_tile<T, float> : finish_tile<T, T>;
  }
}

}  // namespace terrace::ops::cpu
