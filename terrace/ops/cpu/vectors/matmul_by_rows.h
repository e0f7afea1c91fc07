// Computes products with a factor A that must be packed and few columns. Packing A in memory would take a fifth of
// their time, so all panels of B are packed first, and each thread packs a few groups of its rows of A at a time, into
// its level-2 cache. A sum over a long k is added up in pieces, one after the other for these rows, whose part of C
// stays in the cache.
#pragma once

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "terrace/ops/cpu/matmul.h"
#include "terrace/ops/cpu/vectors/matmul_pack.h"
#include "terrace/ops/cpu/vectors/matmul_tiles.h"
#include "terrace/ops/cpu/vectors/words_memory.h"

namespace terrace::ops::cpu::TERRACE_VECTOR_SET {

constexpr int64_t most_steps_by_rows = 1024;     // of a piece
constexpr int64_t most_words_by_rows = 1 << 21;  // of B, packed at a time, so that they stay in the level-3 cache

inline bool goes_by_rows(const Factor& a, int64_t n, int64_t steps) {
  return !a.k_inner && steps <= most_steps_by_rows && n * steps <= most_words_by_rows;
}

inline Finish accumulating(Finish finish) {
  finish.kind = Finish::Kind::accumulate;
  return finish;
}

template <typename T>
class ProductByRows {
 public:
  // The sum over k is added up in pieces of this length, of which only the last one may be shorter.
  ProductByRows(const Factor& a, const Factor& b, const MatmulSize& size, int64_t piece, const Finish& finish)
      : b_k_inner_(b.k_inner),
        m_(size.m),
        n_(size.n),
        panels_(panels_in(size.n)),
        tiles_of_first_(size.m, size.n, finish),
        tiles_of_others_(size.m, size.n, accumulating(finish)) {
    for (int64_t k = 0; k < size.k || k == 0; k += piece) {
      const int64_t length = std::min(piece, size.k - k);
      pieces_.push_back({words_from<T>(a, k, length), words_from<T>(b, k, length)});
    }
    panel_words_ = pieces_.front().b.steps() * panel_columns;
    group_words_ = pieces_.front().a.steps() * group_rows + 2;
  }

  void run() const {
    const auto pieces = static_cast<int64_t>(pieces_.size());
    const int64_t together =
        std::clamp<int64_t>(most_words_by_rows / std::max<int64_t>(panels_ * panel_words_, 1), 1, pieces);
    const int64_t threads = threads_of_product(), all = groups_in(m_);
    const at::Tensor panels = empty_words(together * panels_ * panel_words_);
    const at::Tensor groups = empty_words(threads * groups_at_a_time * group_words_);
    for (int64_t first = 0; first < pieces; first += together) {
      const Portion portion{first, std::min(first + together, pieces), words_of(panels)};
      pack(portion);
      at::parallel_for(0, threads, 1, [&](int64_t begin, int64_t end) {
        const Groups own{begin * all / threads, end * all / threads};
        multiply(portion, own, words_of(groups) + begin * groups_at_a_time * group_words_);
      });
    }
  }

 private:
  // The parts of A and B in one piece of k.
  struct Piece {
    Words<T> a, b;
  };

  // Pieces whose panels of B are packed at a time.
  struct Portion {
    int64_t first, end;
    uint32_t* panels;
  };

  // Groups of rows of A.
  struct Groups {
    int64_t first, end;
  };

  void pack(const Portion& portion) const {
    constexpr int64_t part_steps = 64;
    const int64_t parts = (panel_words_ / panel_columns + part_steps - 1) / part_steps;
    at::parallel_for(0, (portion.end - portion.first) * parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t piece = i / parts, first = i % parts * part_steps;
        const Words<T>& b = pieces_[portion.first + piece].b;
        pack_panels(b, b_k_inner_, 0, panels_, n_, {first, std::min(first + part_steps, b.steps())}, panel_words_,
                    portion.panels + piece * panels_ * panel_words_ + first * panel_columns);
      }
    });
  }

  // `memory` is for the groups that are packed at a time.
  void multiply(const Portion& portion, const Groups& own, uint32_t* memory) const {
    for (int64_t first = own.first; first < own.end; first += groups_at_a_time) {
      const Groups groups{first, std::min(first + groups_at_a_time, own.end)};
      const Groups after{groups.end, std::min(groups.end + groups_at_a_time, own.end)};
      for (int64_t piece = portion.first; piece < portion.end; ++piece) {
        Fetches fetches;
        fetches.rows = piece + 1 < portion.end ? rows_of(piece + 1, groups) : rows_of(portion.first, after);
        multiply_piece(portion, piece, groups, memory, fetches);
      }
    }
  }

  void multiply_piece(const Portion& portion, int64_t piece, const Groups& groups, uint32_t* memory,
                      Fetches& fetches) const {
    const Words<T>& a = pieces_[piece].a;
    const Tiles<T>& tiles = piece == 0 ? tiles_of_first_ : tiles_of_others_;
    const int64_t steps = a.steps(), count = groups.end - groups.first, top = groups.first * group_rows;
    const uint32_t* panels = portion.panels + (piece - portion.first) * panels_ * panel_words_;
    pack_groups(a, top, std::min(count * group_rows, m_ - top), group_words_, memory);
    fetches.rows.divide(panels_ * count * fetches_in(steps));
    for (int64_t panel = 0; panel < panels_; ++panel, panels += panel_words_) {
      const bool last = panel + 1 == panels_;
      if (!last || piece + 1 < portion.end) {
        fetches.columns = {panels + panel_words_, panel_words_ * static_cast<int64_t>(sizeof(uint32_t)), 0, 1};
        fetches.columns.divide(count * fetches_in(steps));
      }
      for (int64_t group = groups.first; group < groups.end; ++group) {
        const bool ends = group + 1 == groups.end;
        tiles.fetch(ends ? tiles.at(groups.first, last ? 0 : panel + 1) : tiles.at(group + 1, panel), fetches_in(steps),
                    fetches);
        alignas(64) float sums[tile_floats];
        const TileWords words{.a = memory + (group - groups.first) * group_words_,
                              .order = RowOrder::groups,
                              .row_words = 0,
                              .panel = panels,
                              .steps = steps,
                              .begin = nullptr};
        tiles.finish(words, tiles.at(group, panel), sums, fetches);
      }
    }
  }

  // The part of A that is packed for these groups.
  FetchAhead rows_of(int64_t piece, const Groups& groups) const {
    const Words<T>& a = pieces_[piece].a;
    return a.part(false, {0, a.steps()}, std::min(m_, groups.first * group_rows),
                  std::min(m_, groups.end * group_rows));
  }

  bool b_k_inner_;
  int64_t m_, n_, panels_;
  Tiles<T> tiles_of_first_, tiles_of_others_;
  std::vector<Piece> pieces_;
  int64_t panel_words_ = 0, group_words_ = 0;  // of the longest piece
};

}  // namespace terrace::ops::cpu::TERRACE_VECTOR_SET
