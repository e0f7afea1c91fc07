// Computes matrix products tile by tile and stores each tile with its bias, activation or accumulation.
#include "terrace/ops/cpu/matmul.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <c10/util/BFloat16.h>

#include <array>
#include <numeric>
#include <type_traits>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/ops/cpu/avx512/gelu.h"
#include "terrace/ops/cpu/avx512/matmul_pack.h"

namespace terrace::ops::cpu {
namespace {

constexpr int64_t vectors = panel_columns / lanes;
// The size of the packed panels that a thread uses at a time, so that they stay in its level-2 cache.
constexpr int64_t cached_bytes = 448 << 10;

// The sums of the first `Vectors` vectors of columns of a tile of `Rows` rows: word (row, step) of A is
// a[row * row_words + step * step_words].
template <typename T, int Rows, int Vectors>
TERRACE_AVX512 void multiply_tile(const uint32_t* a, int64_t row_words, int64_t step_words, const uint32_t* panel,
                                  int64_t steps, float* sums) {
  __m512 sum[Rows][Vectors];
#pragma GCC unroll 6
  for (int row = 0; row < Rows; ++row) {
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) sum[row][v] = _mm512_setzero_ps();
  }
  for (int64_t step = 0; step < steps; ++step) {
    __m512 b[Vectors];
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) b[v] = _mm512_loadu_ps(panel + step * panel_columns + v * lanes);
#pragma GCC unroll 6
    for (int row = 0; row < Rows; ++row) {
      const __m512 x = _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(a[row * row_words + step * step_words])));
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) sum[row][v] = multiply_add<T>(x, b[v], sum[row][v]);
    }
  }
#pragma GCC unroll 6
  for (int row = 0; row < Rows; ++row) {
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) _mm512_storeu_ps(sums + row * panel_columns + v * lanes, sum[row][v]);
  }
}

// The place of a tile in C.
struct Place {
  int64_t row, column, rows, columns;
};

template <typename T, typename Out>
TERRACE_AVX512 void finish_tile(const Finish& finish, const Place& place, const float* sums) {
  const T* bias = static_cast<const T*>(finish.bias);
  for (int64_t row = 0; row < place.rows; ++row) {
    Out* out = static_cast<Out*>(finish.out) + (place.row + row) * finish.out_stride + place.column;
    T* inner = static_cast<T*>(finish.inner) + (place.row + row) * finish.inner_stride + place.column;
    for (int64_t at = 0; at < place.columns; at += lanes) {
      const __mmask16 mask = first_lanes(place.columns - at);
      __m512 value = _mm512_loadu_ps(sums + row * panel_columns + at);
      if (bias) value = _mm512_add_ps(value, load_wide(bias + place.column + at, mask));
      switch (finish.kind) {
        case Finish::Kind::store:
          break;
        case Finish::Kind::accumulate:
          value = _mm512_add_ps(load_wide(out + at, mask), value);
          break;
        case Finish::Kind::gelu:
          store_narrow(inner + at, value, mask);
          value = rounded<T>(value);  // a load of what was just stored would wait for the store
          value = _mm512_mul_ps(value, gelu_share(value, _mm512_mul_ps(value, value)).share);
          break;
        case Finish::Kind::gelu_backward:
          value = _mm512_mul_ps(value, gelu_slope(load_wide(inner + at, mask)));
          break;
      }
      store_narrow(out + at, value, mask);
    }
  }
}

// Prefetches the memory that finish_tile() will read while the tile is computed.
template <typename T, typename Out>
void fetch_for_finish(const Finish& finish, const Place& place) {
  const bool reads_out = finish.kind == Finish::Kind::accumulate,
             reads_inner = finish.kind == Finish::Kind::gelu_backward;
  if (!reads_out && !reads_inner) return;
  constexpr int64_t cache_line = 64;
  const int64_t size = reads_out ? sizeof(Out) : sizeof(T);
  const char* first = reads_out ? static_cast<const char*>(finish.out) : static_cast<const char*>(finish.inner);
  const int64_t stride = reads_out ? finish.out_stride : finish.inner_stride;
  for (int64_t row = 0; row < place.rows; ++row) {
    const char* const from = first + ((place.row + row) * stride + place.column) * size;
    for (int64_t at = 0; at < place.columns * size; at += cache_line) __builtin_prefetch(from + at);
  }
}

using MultiplyTile = void (*)(const uint32_t*, int64_t, int64_t, const uint32_t*, int64_t, float*);

// By rows and vectors of columns, both from 1.
template <typename T, size_t... sizes>
constexpr std::array<MultiplyTile, sizeof...(sizes)> all_tiles(std::index_sequence<sizes...>) {
  return {multiply_tile<T, 1 + static_cast<int>(sizes / vectors), 1 + static_cast<int>(sizes % vectors)>...};
}

template <typename T>
MultiplyTile multiply_tile_of(const Place& place) {
  static constexpr auto tiles = all_tiles<T>(std::make_index_sequence<group_rows * vectors>());
  return tiles[static_cast<size_t>((place.rows - 1) * vectors + (place.columns - 1) / lanes)];
}

// A in the order in which tiles read it: the first word of the g-th group of six rows is at groups + g * group_words.
struct PackedRows {
  const uint32_t* groups = nullptr;
  int64_t group_words = 0, row_words = 0, step_words = 0;
  at::Tensor memory;  // undefined if A is read in place
};

at::Tensor empty_words(int64_t count) { return at::empty({count}, at::kInt); }

uint32_t* words_of(const at::Tensor& memory) { return reinterpret_cast<uint32_t*>(memory.mutable_data_ptr<int32_t>()); }

template <typename T>
PackedRows pack_a(const Factor& a, int64_t m, int64_t k) {
  const Words<T> words(a.data, a.stride, k);
  const int64_t steps = words.steps();
  if (a.k_inner && k % word_elements<T> == 0 && a.stride % word_elements<T> == 0) {
    const int64_t row_words = a.stride / word_elements<T>;
    return {static_cast<const uint32_t*>(a.data), group_rows * row_words, row_words, 1, {}};
  }
  const int64_t num_groups = (m + group_rows - 1) / group_rows;
  PackedRows packed{
      .groups = nullptr, .group_words = steps * group_rows, .row_words = steps, .step_words = 1, .memory = {}};
  if (!a.k_inner) packed = {nullptr, steps * group_rows + 2, 1, group_rows, {}};
  packed.memory = empty_words(num_groups * packed.group_words);
  uint32_t* to = words_of(packed.memory);
  packed.groups = to;
  constexpr int64_t strip = 3 * lanes;
  at::parallel_for(0, (m + strip - 1) / strip, 1, [&](int64_t begin, int64_t end) {
    for (int64_t top = begin * strip; top < std::min(m, end * strip); top += strip) {
      uint32_t* place = to + top / group_rows * packed.group_words;
      if (a.k_inner) {
        pack_rows(words, top, std::min(strip, m - top), place);
      } else {
        pack_groups(words, top, std::min(strip, m - top), packed.group_words, place);
      }
    }
  });
  return packed;
}

// The division of C among threads: `across` ranges of whole panels times `down` ranges of whole groups of rows.
struct Grid {
  int64_t across = 1, down = 1;
};

Grid grid_for(int64_t threads, int64_t panels, int64_t groups) {
  // Panels are divided first, since a panel that only one thread uses is packed once. Rows are divided too if the
  // panels are not divisible among the threads and few.
  Grid grid{std::gcd(threads, panels), 1};
  if (panels >= 8 * threads) grid.across = threads;
  grid.down = std::min(threads / grid.across, groups);
  return grid;
}

struct Piece {
  int64_t first_panel, end_panel, first_group, end_group;
};

Piece piece_of(const Grid& grid, int64_t index, int64_t panels, int64_t groups) {
  const int64_t across = index % grid.across, down = index / grid.across;
  return {across * panels / grid.across, (across + 1) * panels / grid.across, down * groups / grid.down,
          (down + 1) * groups / grid.down};
}

struct Size {
  int64_t m, n, k;
};

template <typename T>
class Product {
 public:
  Product(const Factor& a, const Factor& b, const Size& size, const Finish& finish)
      : b_(b.data, b.stride, size.k),
        b_k_inner_(b.k_inner),
        m_(size.m),
        n_(size.n),
        steps_(b_.steps()),
        finish_(finish),
        finish_tile_(finish.out_type == c10::ScalarType::Float ? finish_tile<T, float> : finish_tile<T, T>),
        fetch_for_finish_(finish.out_type == c10::ScalarType::Float ? fetch_for_finish<T, float>
                                                                    : fetch_for_finish<T, T>),
        rows_(pack_a<T>(a, size.m, size.k)) {}

  void run() {
    const int64_t panels = (n_ + panel_columns - 1) / panel_columns, groups = (m_ + group_rows - 1) / group_rows;
    const Grid grid = grid_for(at::get_num_threads(), panels, groups);
    const int64_t pieces = grid.across * grid.down;
    const int64_t panel_words = steps_ * panel_columns;
    const int64_t together = std::clamp<int64_t>(cached_bytes / (panel_words * static_cast<int64_t>(sizeof(uint32_t))),
                                                 1, (panels + grid.across - 1) / grid.across);
    const at::Tensor memory = empty_words(pieces * together * panel_words);
    at::parallel_for(0, pieces, 1, [&](int64_t begin, int64_t end) {
      for (int64_t index = begin; index < end; ++index) {
        uint32_t* panels_here = words_of(memory) + index * together * panel_words;
        const Piece piece = piece_of(grid, index, panels, groups);
        for (int64_t first = piece.first_panel; first < piece.end_panel; first += together) {
          const int64_t last = std::min(piece.end_panel, first + together);
          for (int64_t panel = first; panel < last; ++panel) {
            pack_panel(b_, b_k_inner_, panel * panel_columns, n_, panels_here + (panel - first) * panel_words);
          }
          for (int64_t group = piece.first_group; group < piece.end_group; ++group) {
            multiply_group(group, first, last, panels_here);
          }
        }
      }
    });
  }

 private:
  void multiply_group(int64_t group, int64_t first, int64_t last, const uint32_t* panels) const {
    alignas(64) float sums[group_rows * panel_columns];
    Place place{
        .row = group * group_rows, .column = 0, .rows = std::min(group_rows, m_ - group * group_rows), .columns = 0};
    for (int64_t panel = first; panel < last; ++panel) {
      place.column = panel * panel_columns;
      place.columns = std::min(panel_columns, n_ - place.column);
      fetch_for_finish_(finish_, place);
      const MultiplyTile multiply = multiply_tile_of<T>(place);
      multiply(rows_.groups + group * rows_.group_words, rows_.row_words, rows_.step_words,
               panels + (panel - first) * steps_ * panel_columns, steps_, sums);
      finish_tile_(finish_, place, sums);
    }
  }

  Words<T> b_;
  bool b_k_inner_;
  int64_t m_, n_, steps_;
  const Finish& finish_;
  void (*finish_tile_)(const Finish&, const Place&, const float*);
  void (*fetch_for_finish_)(const Finish&, const Place&);
  PackedRows rows_;
};

// Accumulation into C is computed in pieces of this length of k and this many rows, so that the packed pieces of A are
// small and stay in the cache.
constexpr int64_t piece_of_k = 1024;
constexpr int64_t piece_of_m = 4080;

template <typename T>
Factor from(Factor factor, int64_t k, int64_t other) {
  factor.data =
      static_cast<const T*>(factor.data) + (factor.k_inner ? other * factor.stride + k : k * factor.stride + other);
  return factor;
}

template <typename T>
void multiply(const Factor& a, const Factor& b, const Size& size, const Finish& finish) {
  if (finish.kind != Finish::Kind::accumulate) return Product<T>(a, b, size, finish).run();
  // A 16-bit result takes the whole of k at once, since each piece would be rounded.
  const int64_t length = finish.out_type == c10::ScalarType::Float ? piece_of_k : std::max<int64_t>(size.k, 1);
  const auto row_bytes = finish.out_stride * static_cast<int64_t>(c10::elementSize(finish.out_type));
  for (int64_t top = 0; top < size.m; top += piece_of_m) {
    Finish own = finish;
    own.out = static_cast<char*>(finish.out) + top * row_bytes;
    for (int64_t first = 0; first < size.k; first += length) {
      const Size piece{std::min(piece_of_m, size.m - top), size.n, std::min(length, size.k - first)};
      Product<T>(from<T>(a, first, top), from<T>(b, first, 0), piece, own).run();
    }
  }
}

}  // namespace

bool has_matmul(c10::ScalarType type) { return has_avx512(type); }

void matmul(c10::ScalarType type, const Factor& a, const Factor& b, int64_t m, int64_t n, int64_t k,
            const Finish& finish) {
  TERRACE_CHECK(has_matmul(type), "this processor has no matrix products of {}", c10::toString(type));
  TERRACE_CHECK(finish.out_type == type || finish.out_type == c10::ScalarType::Float,
                "a product of {} cannot be stored as {}", c10::toString(type), c10::toString(finish.out_type));
  if (m == 0 || n == 0) return;
  if (type == c10::ScalarType::Float) {
    multiply<float>(a, b, {m, n, k}, finish);
  } else {
    multiply<c10::BFloat16>(a, b, {m, n, k}, finish);
  }
}

}  // namespace terrace::ops::cpu
