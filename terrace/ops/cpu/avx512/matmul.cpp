// Computes matrix products tile by tile and stores each tile with its bias, activation or accumulation.
#include "terrace/ops/cpu/matmul.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <c10/util/BFloat16.h>

#include <array>
#include <type_traits>
#include <utility>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/ops/cpu/avx512/matmul_finish.h"
#include "terrace/ops/cpu/avx512/matmul_pack.h"

namespace terrace::ops::cpu {
namespace {

constexpr int64_t tile_floats = group_rows * panel_columns;
// The size of the packed panels that a thread uses at a time, so that they stay in its level-2 cache.
constexpr int64_t cached_bytes = 448 << 10;
// The most words along k that a tile sums at a time, so that its rows of A stay in the level-1 cache over all panels.
constexpr int64_t most_steps = 768;
// The most groups of rows whose sums wait for the next words along k.
constexpr int64_t waiting_groups = 340;

// A tile fetches some cache lines of what is used next before every so many steps: many at once would wait for memory.
constexpr int64_t steps_of_fetch = 16;

constexpr int64_t fetches_in(int64_t steps) { return (steps + steps_of_fetch - 1) / steps_of_fetch; }

struct Fetches {
  FetchAhead rows;     // of A, after those of the tile
  FetchAhead columns;  // of B, after those of the tile
  FetchAhead out;      // what finish_tile() will write
  FetchAhead inner;

  void next() {
    rows.next();
    columns.next();
    out.next<1>();
    inner.next();
  }
};

// How the words of A lie that a tile multiplies.
enum class RowOrder {
  rows,    // word (row, step) at row * row_words + step
  groups,  // at step * group_rows + row
};

// What a tile multiplies.
struct TileWords {
  const uint32_t* a;
  RowOrder order;
  int64_t row_words;
  const uint32_t* panel;
  int64_t steps;
  const float* begin;  // what the sums begin with, row by row of a panel; null: zero
};

template <typename T, RowOrder order, int Rows, int Vectors>
TERRACE_AVX512_INLINE void add_steps(const TileWords& words, Fetches& fetches, __m512 (&sum)[Rows][Vectors]) {
  const int64_t steps = words.steps, row_words = words.row_words;
  const uint32_t *a = words.a, *panel = words.panel;
  for (int64_t step = 0; step < steps;) {
    fetches.next();
    for (const int64_t stop = std::min(steps, step + steps_of_fetch); step < stop; ++step) {
      __m512 b[Vectors];
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) b[v] = _mm512_loadu_ps(panel + step * panel_columns + v * lanes);
#pragma GCC unroll 6
      for (int row = 0; row < Rows; ++row) {
        const uint32_t word = order == RowOrder::rows ? a[row * row_words + step] : a[step * group_rows + row];
        const __m512 x = _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(word)));
#pragma GCC unroll 4
        for (int v = 0; v < Vectors; ++v) sum[row][v] = multiply_add<T>(x, b[v], sum[row][v]);
      }
    }
  }
}

// Sums the first `Vectors` vectors of columns of a tile of `Rows` rows.
template <typename T, int Rows, int Vectors>
TERRACE_AVX512_INLINE void sum_tile(const TileWords& words, Fetches& fetches, __m512 (&sum)[Rows][Vectors]) {
#pragma GCC unroll 6
  for (int row = 0; row < Rows; ++row) {
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) {
      sum[row][v] = words.begin ? _mm512_loadu_ps(words.begin + row * panel_columns + v * lanes) : _mm512_setzero_ps();
    }
  }
  if (words.order == RowOrder::rows) {
    add_steps<T, RowOrder::rows>(words, fetches, sum);
  } else {
    add_steps<T, RowOrder::groups>(words, fetches, sum);
  }
}

template <typename T, int Rows, int Vectors>
TERRACE_AVX512 void multiply_tile(const TileWords& words, float* sums, Fetches& fetches) {
  __m512 sum[Rows][Vectors];
  sum_tile<T>(words, fetches, sum);
#pragma GCC unroll 6
  for (int row = 0; row < Rows; ++row) {
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) _mm512_storeu_ps(sums + row * panel_columns + v * lanes, sum[row][v]);
  }
}

// A whole tile that is only stored or accumulated, straight from its registers: where k is small, storing and loading
// its sums again would take a twentieth of the time.
template <typename T, typename Out, Finish::Kind kind>
TERRACE_AVX512 void multiply_whole_tile(const TileWords& words, const Finish& finish, const Tile& tile,
                                        Fetches& fetches) {
  __m512 sum[group_rows][vectors];
  sum_tile<T>(words, fetches, sum);
  if (const T* bias = static_cast<const T*>(finish.bias)) {
#pragma GCC unroll 4
    for (int64_t v = 0; v < vectors; ++v) {
      const __m512 of_columns = load_wide(bias + tile.column + v * lanes);
#pragma GCC unroll 6
      for (int64_t row = 0; row < group_rows; ++row) sum[row][v] = _mm512_add_ps(sum[row][v], of_columns);
    }
  }
  Out* out = static_cast<Out*>(finish.out) + tile.row * finish.out_stride + tile.column;
#pragma GCC unroll 6
  for (int64_t row = 0; row < group_rows; ++row) {
#pragma GCC unroll 4
    for (int64_t v = 0; v < vectors; ++v) {
      Out* place = out + row * finish.out_stride + v * lanes;
      if constexpr (kind == Finish::Kind::accumulate) sum[row][v] = _mm512_add_ps(load_wide(place), sum[row][v]);
      store_narrow(place, sum[row][v]);
    }
  }
}

using MultiplyWholeTile = void (*)(const TileWords&, const Finish&, const Tile&, Fetches&);

// Null if other things are to be done with the product.
template <typename T>
MultiplyWholeTile multiply_whole_tile_of(const Finish& finish) {
  const bool accumulates = finish.kind == Finish::Kind::accumulate;
  if ((finish.kind != Finish::Kind::store && !accumulates) || finish.factors != nullptr) return nullptr;
  constexpr auto store = Finish::Kind::store, accumulate = Finish::Kind::accumulate;
  if (finish.out_type == c10::ScalarType::Float) {
    return accumulates ? multiply_whole_tile<T, float, accumulate> : multiply_whole_tile<T, float, store>;
  }
  return accumulates ? multiply_whole_tile<T, T, accumulate> : multiply_whole_tile<T, T, store>;
}

// The part of a matrix that a tile takes.
FetchAhead part_of(const void* matrix, int64_t stride, int64_t element_bytes, const Tile& tile) {
  return {static_cast<const char*>(matrix) + (tile.row * stride + tile.column) * element_bytes,
          tile.columns * element_bytes, stride * element_bytes, tile.rows};
}

using MultiplyTile = void (*)(const TileWords&, float*, Fetches&);

// By rows and vectors of columns, both from 1.
template <typename T, size_t... sizes>
constexpr std::array<MultiplyTile, sizeof...(sizes)> all_tiles(std::index_sequence<sizes...>) {
  return {multiply_tile<T, 1 + static_cast<int>(sizes / vectors), 1 + static_cast<int>(sizes % vectors)>...};
}

template <typename T>
MultiplyTile multiply_tile_of(const Tile& tile) {
  static constexpr auto tiles = all_tiles<T>(std::make_index_sequence<group_rows * vectors>());
  return tiles[static_cast<size_t>((tile.rows - 1) * vectors + (tile.columns - 1) / lanes)];
}

// A in the order in which tiles read it: the first word of the g-th group of six rows is at groups + g * group_words.
struct PackedRows {
  const uint32_t* groups = nullptr;
  int64_t group_words = 0;
  RowOrder order = RowOrder::rows;
  int64_t row_words = 0;
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
    return {static_cast<const uint32_t*>(a.data), group_rows * row_words, RowOrder::rows, row_words, {}};
  }
  const int64_t num_groups = (m + group_rows - 1) / group_rows;
  PackedRows packed;
  packed.order = a.k_inner ? RowOrder::rows : RowOrder::groups;
  packed.group_words = steps * group_rows + (a.k_inner ? 0 : 2);
  packed.row_words = steps;
  packed.memory = empty_words(num_groups * packed.group_words);
  uint32_t* to = words_of(packed.memory);
  packed.groups = to;
  at::parallel_for(0, (m + strip_rows - 1) / strip_rows, 1, [&](int64_t begin, int64_t end) {
    const int64_t top = begin * strip_rows, rows = std::min(m, end * strip_rows) - top;
    uint32_t* place = to + top / group_rows * packed.group_words;
    if (a.k_inner) {
      pack_rows(words, top, rows, place);
    } else {
      pack_groups(words, top, rows, packed.group_words, place);
    }
  });
  return packed;
}

// Where A must be packed, packing it in memory would take a fifth of a product with few columns. Then all panels of B
// are packed first, and each thread packs this many groups of its rows at a time, into its level-2 cache.
constexpr int64_t groups_at_a_time = 16;
constexpr int64_t most_steps_by_rows = 1024;
constexpr int64_t most_words_by_rows = 1 << 21;  // of B, so that they stay in the level-3 cache

bool goes_by_rows(const Factor& a, int64_t n, int64_t steps) {
  return !a.k_inner && steps <= most_steps_by_rows && n * steps <= most_words_by_rows;
}

// Whole panels and groups of rows of C.
struct Piece {
  int64_t first_panel, end_panel, first_group, end_group;
};

// Columns whose panels stay in the cache, for one block of k.
struct Portion {
  Piece piece;
  int64_t block;
};

// What thread `index` of `threads` computes: its own panels of all rows, and its own rows of the last panels, which are
// not divisible among the threads or narrower than the others. A panel that only one thread uses is packed once.
std::array<Piece, 2> pieces_of(int64_t index, int64_t threads, int64_t n, int64_t groups) {
  const int64_t panels = (n + panel_columns - 1) / panel_columns;
  const int64_t own = (n % panel_columns == 0 ? panels : panels - 1) / threads;
  return {{{index * own, (index + 1) * own, 0, groups},
           {threads * own, panels, index * groups / threads, (index + 1) * groups / threads}}};
}

struct Size {
  int64_t m, n, k;
};

// The words of a group of rows that is read in place or nearly so.
FetchAhead group_of(const PackedRows& rows, int64_t group, const Steps& steps) {
  if (rows.order != RowOrder::rows) return {};
  constexpr auto bytes = static_cast<int64_t>(sizeof(uint32_t));
  return {rows.groups + group * rows.group_words + steps.first, steps.count() * bytes, rows.row_words * bytes,
          group_rows};
}

template <typename T>
class Product {
 public:
  Product(const Factor& a, const Factor& b, const Size& size, const Finish& finish)
      : a_(a.data, a.stride, size.k),
        b_(b.data, b.stride, size.k),
        b_k_inner_(b.k_inner),
        m_(size.m),
        n_(size.n),
        steps_(b_.steps()),
        by_rows_(goes_by_rows(a, size.n, steps_)),
        blocks_(by_rows_ ? 1 : std::max<int64_t>((steps_ + most_steps - 1) / most_steps, 1)),
        finish_(finish),
        element_bytes_(static_cast<int64_t>(c10::elementSize(finish.out_type))),
        finish_tile_(finish_tile_of<T>(finish)),
        multiply_whole_tile_(multiply_whole_tile_of<T>(finish)),
        rows_(by_rows_ ? PackedRows{} : pack_a<T>(a, size.m, size.k)) {}

  void run() const {
    if (by_rows_) {
      run_by_rows();
    } else {
      run_by_panels();
    }
  }

 private:
  void run_by_rows() const {
    const int64_t groups = (m_ + group_rows - 1) / group_rows, panels = (n_ + panel_columns - 1) / panel_columns;
    const int64_t threads = at::get_num_threads();
    const int64_t panel_words = steps_ * panel_columns, group_words = steps_ * group_rows + 2;
    const at::Tensor packed = empty_words(panels * panel_words);
    at::parallel_for(0, panels, 1, [&](int64_t begin, int64_t end) {
      pack_panels(b_, b_k_inner_, begin * panel_columns, end - begin, n_, steps_of(0),
                  words_of(packed) + begin * panel_words);
    });
    const at::Tensor memory = empty_words(threads * groups_at_a_time * group_words);
    at::parallel_for(0, threads, 1, [&](int64_t begin, int64_t end) {
      const int64_t last = end * groups / threads;
      uint32_t* own = words_of(memory) + begin * groups_at_a_time * group_words;
      for (int64_t group = begin * groups / threads; group < last; group += groups_at_a_time) {
        const int64_t count = std::min(groups_at_a_time, last - group), after = group + count;
        const int64_t top = group * group_rows;
        pack_groups(a_, top, std::min(count * group_rows, m_ - top), group_words, own);
        const PackedRows rows{own - group * group_words, group_words, RowOrder::groups, 0, {}};
        Fetches fetches;
        fetches.rows = a_.part(false, steps_of(0), std::min(m_, after * group_rows),
                               std::min(m_, std::min(last, after + groups_at_a_time) * group_rows));
        fetches.rows.divide(panels * count * fetches_in(steps_));
        for (int64_t panel = 0; panel < panels; ++panel) {
          const uint32_t* words = words_of(packed) + panel * panel_words;
          if (panel + 1 < panels) {
            fetches.columns = {words + panel_words, panel_words * static_cast<int64_t>(sizeof(uint32_t)), 0, 1};
            fetches.columns.divide(count * fetches_in(steps_));
          }
          for (int64_t one = group; one < after; ++one) {
            const Tile next = one + 1 < after ? tile_at(one + 1, panel) : tile_at(group, panel + 1);
            multiply_group({panel, panel + 1, group, after}, one, 0, rows, words, nullptr, next, fetches);
          }
        }
      }
    });
  }

  void run_by_panels() const {
    const int64_t groups = (m_ + group_rows - 1) / group_rows, threads = at::get_num_threads();
    const int64_t panel_words = (steps_ + blocks_ - 1) / blocks_ * panel_columns;
    const int64_t panel_bytes = panel_words * static_cast<int64_t>(sizeof(uint32_t));
    const int64_t together = std::clamp<int64_t>(cached_bytes / std::max<int64_t>(panel_bytes, 1), 1,
                                                 (n_ + panel_columns - 1) / panel_columns);
    const int64_t sums_floats = blocks_ < 2 ? 0 : std::min(groups, waiting_groups) * together * tile_floats;
    const int64_t words = together * panel_words + sums_floats;
    const at::Tensor memory = empty_words(threads * words);
    at::parallel_for(0, threads, 1, [&](int64_t begin, int64_t end) {
      for (int64_t index = begin; index < end; ++index) {
        uint32_t* own = words_of(memory) + index * words;
        const std::vector<Portion> portions = portions_of(index, threads, groups, together);
        for (size_t i = 0; i < portions.size(); ++i) {
          Fetches fetches;
          if (i + 1 < portions.size()) fetches.columns = columns_of(portions[i + 1]);
          run_portion(portions[i], own, reinterpret_cast<float*>(own + together * panel_words), fetches);
        }
      }
    });
  }

  Steps steps_of(int64_t block) const { return {block * steps_ / blocks_, (block + 1) * steps_ / blocks_}; }

  // What a thread computes, in the order in which it does.
  std::vector<Portion> portions_of(int64_t index, int64_t threads, int64_t groups, int64_t together) const {
    std::vector<Portion> portions;
    for (const Piece& piece : pieces_of(index, threads, n_, groups)) {
      const int64_t most_groups = blocks_ < 2 ? groups : waiting_groups;
      for (int64_t group = piece.first_group; group < piece.end_group; group += most_groups) {
        for (int64_t panel = piece.first_panel; panel < piece.end_panel; panel += together) {
          const Piece part{panel, std::min(piece.end_panel, panel + together), group,
                           std::min(piece.end_group, group + most_groups)};
          for (int64_t block = 0; block < blocks_; ++block) portions.push_back({part, block});
        }
      }
    }
    return portions;
  }

  // Of B, for its panels and steps.
  FetchAhead columns_of(const Portion& portion) const {
    return b_.part(b_k_inner_, steps_of(portion.block), portion.piece.first_panel * panel_columns,
                   std::min(n_, portion.piece.end_panel * panel_columns));
  }

  void run_portion(const Portion& portion, uint32_t* panels, float* waiting, Fetches& fetches) const {
    const auto& [piece, block] = portion;
    const int64_t in_row = piece.end_panel - piece.first_panel;
    const Steps steps = steps_of(block);
    pack_panels(b_, b_k_inner_, piece.first_panel * panel_columns, in_row, n_, steps, panels);
    fetches.columns.divide((piece.end_group - piece.first_group) * in_row * fetches_in(steps.count()));
    for (int64_t group = piece.first_group; group < piece.end_group; ++group) {
      if (group + 1 < piece.end_group) {
        fetches.rows = group_of(rows_, group + 1, steps);
        fetches.rows.divide(in_row * fetches_in(steps.count()));
      }
      const Tile next = group + 1 < piece.end_group ? tile_at(group + 1, piece.first_panel) : Tile{};
      multiply_group(piece, group, block, rows_, panels, waiting, next, fetches);
    }
  }

  void multiply_group(const Piece& piece, int64_t group, int64_t block, const PackedRows& rows, const uint32_t* panels,
                      float* waiting, const Tile& next, Fetches& fetches) const {
    alignas(64) float own_sums[tile_floats];
    const Steps steps = steps_of(block);
    const bool last = block + 1 == blocks_;
    for (int64_t panel = piece.first_panel; panel < piece.end_panel; ++panel) {
      const int64_t in_piece = panel - piece.first_panel;
      float* sums = blocks_ < 2
                        ? own_sums
                        : waiting + ((group - piece.first_group) * (piece.end_panel - piece.first_panel) + in_piece) *
                                        tile_floats;
      const Tile tile = tile_at(group, panel);
      if (last) {
        const Tile ahead = panel + 1 < piece.end_panel ? tile_at(group, panel + 1) : next;
        fetch_for_finish(ahead, fetches_in(steps.count()), fetches);
      }
      const int64_t step_words = rows.order == RowOrder::rows ? 1 : group_rows;
      const TileWords words{.a = rows.groups + group * rows.group_words + steps.first * step_words,
                            .order = rows.order,
                            .row_words = rows.row_words,
                            .panel = panels + in_piece * steps.count() * panel_columns,
                            .steps = steps.count(),
                            .begin = block == 0 ? nullptr : sums};
      if (last && multiply_whole_tile_ != nullptr && tile.rows == group_rows && tile.columns == panel_columns) {
        multiply_whole_tile_(words, finish_, tile, fetches);
        continue;
      }
      multiply_tile_of<T>(tile)(words, sums, fetches);
      if (last) finish_tile_(finish_, tile, sums);
    }
  }

  // Without rows or columns beyond the end of C.
  Tile tile_at(int64_t group, int64_t panel) const {
    const int64_t row = group * group_rows, column = panel * panel_columns;
    return {row, column, std::clamp<int64_t>(m_ - row, 0, group_rows),
            std::clamp<int64_t>(n_ - column, 0, panel_columns)};
  }

  // What the tile's finish will use, in so many times.
  void fetch_for_finish(const Tile& tile, int64_t times, Fetches& fetches) const {
    const bool halves = finish_.kind == Finish::Kind::swiglu, doubles = finish_.kind == Finish::Kind::swiglu_backward;
    Tile out = tile, inner = tile;
    if (halves) out.column /= 2, out.columns /= 2;
    if (doubles) out.column *= 2, out.columns *= 2, inner = out;
    fetches.out = part_of(finish_.out, finish_.out_stride, element_bytes_, out);
    fetches.out.divide(times);
    if (finish_.inner == nullptr) return;
    fetches.inner = part_of(finish_.inner, finish_.inner_stride, sizeof(T), inner);
    fetches.inner.divide(times);
  }

  Words<T> a_, b_;
  bool b_k_inner_;
  int64_t m_, n_, steps_;
  bool by_rows_;
  int64_t blocks_;
  const Finish& finish_;
  int64_t element_bytes_;  // of C
  FinishTile finish_tile_;
  MultiplyWholeTile multiply_whole_tile_;
  PackedRows rows_;
};

// Where A is packed, a sum in fp32 is computed in equal pieces of at most this length of k and this many rows, so that
// the packed pieces of A are small and stay in the cache.
constexpr int64_t piece_of_k = 1024;
constexpr int64_t piece_of_m = 2016;

template <typename T>
Factor from(Factor factor, int64_t k, int64_t other) {
  factor.data =
      static_cast<const T*>(factor.data) + (factor.k_inner ? other * factor.stride + k : k * factor.stride + other);
  return factor;
}

// Whether C is a sum of products in fp32, which needs no rounding after each.
bool adds_pieces(const Finish& finish) {
  const bool sums = finish.kind == Finish::Kind::accumulate || finish.kind == Finish::Kind::store;
  return sums && finish.bias == nullptr && finish.out_type == c10::ScalarType::Float;
}

template <typename T>
void multiply(const Factor& a, const Factor& b, const Size& size, const Finish& finish) {
  if (a.k_inner) return Product<T>(a, b, size, finish).run();
  const int64_t pieces = adds_pieces(finish) ? std::max<int64_t>((size.k + piece_of_k - 1) / piece_of_k, 1) : 1;
  const int64_t length = std::max<int64_t>((size.k + pieces - 1) / pieces, 1);
  const int64_t steps = (std::min(length, size.k) + word_elements<T> - 1) / word_elements<T>;
  const int64_t most_rows = goes_by_rows(a, size.n, steps) ? size.m : piece_of_m;
  const auto row_bytes = finish.out_stride * static_cast<int64_t>(c10::elementSize(finish.out_type));
  for (int64_t top = 0; top < size.m; top += most_rows) {
    Finish own = finish;
    own.out = static_cast<char*>(finish.out) + top * row_bytes;
    for (int64_t first = 0; first < size.k || first == 0; first += length) {
      const Size piece{std::min(most_rows, size.m - top), size.n, std::min(length, size.k - first)};
      Product<T>(from<T>(a, first, top), from<T>(b, first, 0), piece, own).run();
      own.kind = Finish::Kind::accumulate;
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
