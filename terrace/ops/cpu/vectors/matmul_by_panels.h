// Products whose panels of B each thread packs for itself, a few at a time, over all rows of A.
#pragma once

#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "terrace/ops/cpu/matmul.h"
#include "terrace/ops/cpu/vectors/matmul_pack.h"
#include "terrace/ops/cpu/vectors/matmul_tiles.h"
#include "terrace/ops/cpu/vectors/words_memory.h"

namespace terrace::ops::cpu::TERRACE_VECTOR_SET {

// Panels that one thread computes together, in order, since their exponentials have one sum.
constexpr int64_t panels_together = sum_columns / panel_columns;

// A in the order in which tiles read it: the first word of the g-th group of six rows is at groups + g * group_words.
struct PackedRows {
  const uint32_t* groups = nullptr;
  int64_t group_words = 0;
  RowOrder order = RowOrder::rows;
  int64_t row_words = 0;
  at::Tensor memory;  // undefined if A is read in place
};

template <typename T>
PackedRows pack_a(const Factor& a, int64_t m, int64_t k) {
  const Words<T> words(a.data, a.stride, k);
  const int64_t steps = words.steps();
  if (std::is_same_v<T, Operand<T>> && a.k_inner && k % word_elements<T> == 0 && a.stride % word_elements<T> == 0) {
    const int64_t row_words = a.stride / word_elements<T>;
    return {static_cast<const uint32_t*>(a.data), group_rows * row_words, RowOrder::rows, row_words, {}};
  }
  PackedRows packed;
  packed.order = a.k_inner ? RowOrder::rows : RowOrder::groups;
  packed.group_words = steps * group_rows + (a.k_inner ? 0 : 2);
  packed.row_words = steps;
  packed.memory = empty_words(groups_in(m) * packed.group_words);
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

// Whole panels and groups of rows of C.
struct Piece {
  int64_t first_panel, end_panel, first_group, end_group;
};

// Columns whose panels stay in the cache, for one block of k.
struct Portion {
  Piece piece;
  int64_t block;
};

// The pieces that thread `index` of `threads` computes: its own panels of all rows, and its own rows of the last
// panels, which are not divisible among the threads or narrower than the others. A panel that only one thread uses is
// packed once.
std::array<Piece, 2> pieces_of(int64_t index, int64_t threads, int64_t n, int64_t groups) {
  const int64_t panels = panels_in(n);
  const int64_t own = n / sum_columns / threads * panels_together;
  return {{{index * own, (index + 1) * own, 0, groups},
           {threads * own, panels, index * groups / threads, (index + 1) * groups / threads}}};
}

// The words of a group of rows that is read in place or nearly so.
FetchAhead group_of(const PackedRows& rows, int64_t group, const Steps& steps) {
  if (rows.order != RowOrder::rows) return {};
  constexpr auto bytes = static_cast<int64_t>(sizeof(uint32_t));
  return {rows.groups + group * rows.group_words + steps.first, steps.count() * bytes, rows.row_words * bytes,
          group_rows};
}

template <typename T>
class ProductByPanels {
 public:
  ProductByPanels(const Factor& a, const Factor& b, const MatmulSize& size, const Finish& finish)
      : b_(b.data, b.stride, size.k),
        b_k_inner_(b.k_inner),
        m_(size.m),
        n_(size.n),
        steps_(b_.steps()),
        blocks_(std::max<int64_t>((steps_ + most_steps - 1) / most_steps, 1)),
        tiles_(size.m, size.n, finish),
        rows_(pack_a<T>(a, size.m, size.k)) {}

  void run() const {
    const int64_t groups = groups_in(m_), threads = threads_of_product();
    const int64_t panel_words = (steps_ + blocks_ - 1) / blocks_ * panel_columns;
    const int64_t panel_bytes = panel_words * static_cast<int64_t>(sizeof(uint32_t));
    const int64_t together = std::clamp<int64_t>(cached_bytes / std::max<int64_t>(panel_bytes, 1), 1, panels_in(n_));
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

 private:
  Steps steps_of(int64_t block) const { return {block * steps_ / blocks_, (block + 1) * steps_ / blocks_}; }

  // The portions that a thread computes, in the order in which it does.
  std::vector<Portion> portions_of(int64_t index, int64_t threads, int64_t groups, int64_t together) const {
    std::vector<Portion> portions;
    for (const Piece& piece : pieces_of(index, threads, n_, groups)) {
      const int64_t most_groups = blocks_ < 2 ? groups : waiting_groups;
      for (int64_t group = piece.first_group; group < piece.end_group; group += most_groups) {
        const int64_t panels = piece.end_panel - piece.first_panel, parts = (panels + together - 1) / together;
        for (int64_t i = 0; i < parts; ++i) {
          const Piece part{piece.first_panel + i * panels / parts, piece.first_panel + (i + 1) * panels / parts, group,
                           std::min(piece.end_group, group + most_groups)};
          for (int64_t block = 0; block < blocks_; ++block) portions.push_back({part, block});
        }
      }
    }
    return portions;
  }

  // The columns of B in a portion's panels and steps.
  FetchAhead columns_of(const Portion& portion) const {
    return b_.part(b_k_inner_, steps_of(portion.block), portion.piece.first_panel * panel_columns,
                   std::min(n_, portion.piece.end_panel * panel_columns));
  }

  void run_portion(const Portion& portion, uint32_t* panels, float* waiting, Fetches& fetches) const {
    const auto& [piece, block] = portion;
    const int64_t in_row = piece.end_panel - piece.first_panel;
    const Steps steps = steps_of(block);
    pack_panels(b_, b_k_inner_, piece.first_panel * panel_columns, in_row, n_, steps, steps.count() * panel_columns,
                panels);
    fetches.columns.divide((piece.end_group - piece.first_group) * in_row * fetches_in(steps.count()));
    for (int64_t group = piece.first_group; group < piece.end_group; ++group) {
      if (group + 1 < piece.end_group) {
        fetches.rows = group_of(rows_, group + 1, steps);
        fetches.rows.divide(in_row * fetches_in(steps.count()));
      }
      multiply_group(portion, group, panels, waiting, fetches);
    }
  }

  void multiply_group(const Portion& portion, int64_t group, const uint32_t* panels, float* waiting,
                      Fetches& fetches) const {
    const auto& [piece, block] = portion;
    alignas(64) float own_sums[tile_floats];
    const Steps steps = steps_of(block);
    const bool last = block + 1 == blocks_;
    const int64_t step_words = rows_.order == RowOrder::rows ? 1 : group_rows;
    for (int64_t panel = piece.first_panel; panel < piece.end_panel; ++panel) {
      const int64_t in_piece = panel - piece.first_panel;
      float* sums = blocks_ < 2
                        ? own_sums
                        : waiting + ((group - piece.first_group) * (piece.end_panel - piece.first_panel) + in_piece) *
                                        tile_floats;
      const TileWords words{.a = rows_.groups + group * rows_.group_words + steps.first * step_words,
                            .order = rows_.order,
                            .row_words = rows_.row_words,
                            .panel = panels + in_piece * steps.count() * panel_columns,
                            .steps = steps.count(),
                            .begin = block == 0 ? nullptr : sums};
      const Tile tile = tiles_.at(group, panel);
      if (last) {
        tiles_.fetch(tile_after(piece, group, panel), fetches_in(steps.count()), fetches);
        tiles_.finish(words, tile, sums, fetches);
      } else {
        multiply_tile_of<T>(tile)(words, sums, fetches);
      }
    }
  }

  Tile tile_after(const Piece& piece, int64_t group, int64_t panel) const {
    if (panel + 1 < piece.end_panel) return tiles_.at(group, panel + 1);
    return group + 1 < piece.end_group ? tiles_.at(group + 1, piece.first_panel) : Tile{};
  }

  Words<T> b_;
  bool b_k_inner_;
  int64_t m_, n_, steps_, blocks_;
  Tiles<T> tiles_;
  PackedRows rows_;
};

}  // namespace terrace::ops::cpu::TERRACE_VECTOR_SET
