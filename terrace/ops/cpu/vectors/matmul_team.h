// Divides products of different sizes among threads, each of which computes its parts by itself. Neighbouring parts
// belong to one thread, so that a factor that they share is packed once and stays in its cache.
#pragma once

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "terrace/ops/cpu/matmul.h"
#include "terrace/ops/cpu/vectors/matmul.h"
#include "terrace/ops/cpu/vectors/words_memory.h"

namespace terrace::ops::cpu::TERRACE_VECTOR_SET {

// The rows and columns of C in a part of a product.
struct Block {
  int64_t top, bottom, left, right;
};

// A product as tiles in the order in which it is divided: panel by panel, so that the panels of B are divided and not
// packed by several threads; or group by group of rows over all panels, where A is what takes longer to pack.
class DividedProduct {
 public:
  explicit DividedProduct(const TeamProduct& product)
      : m_(product.m),
        n_(product.n),
        groups_(groups_in(product.m)),
        panels_(product.a.k_inner ? panels_in(product.n) : 1),
        // A panel is packed in the time in which it is multiplied with about so many rows.
        cost_(static_cast<double>(product.m + 16) * static_cast<double>(product.n) *
              static_cast<double>(product.k + 8)) {}

  double cost() const { return cost_; }

  // The tile that begins after this share of the product's cost. Panels that are small beside a thread's work stay
  // whole.
  int64_t tile_at(double share, double work_of_thread) const {
    const double panel = cost_ / static_cast<double>(panels_);
    if (panel * 32 < work_of_thread) return std::llround(share * static_cast<double>(panels_)) * groups_;
    return std::llround(share * static_cast<double>(panels_ * groups_));
  }

  // Calls body(block) for the rectangles that tiles [begin, end) are made of.
  template <typename Body>
  void for_blocks(int64_t begin, int64_t end, const Body& body) const {
    while (begin < end) {
      const int64_t panel = begin / groups_, group = begin % groups_;
      const bool whole = group == 0 && end - begin >= groups_;
      const int64_t panels = whole ? (end - begin) / groups_ : 1;
      const int64_t groups = whole ? groups_ : std::min(groups_ - group, end - begin);
      body(Block{group * group_rows, std::min(m_, (group + groups) * group_rows), column(panel),
                 column(panel + panels)});
      begin += panels * groups;
    }
  }

 private:
  int64_t column(int64_t panel) const { return panel == panels_ ? n_ : panel * panel_columns; }

  int64_t m_, n_, groups_, panels_;
  double cost_;
};

// The part of what `finish` reads and writes that belongs to the block.
template <typename T>
Finish finish_of(Finish finish, const Block& block) {
  const int64_t out_column = halves_columns(finish.kind)    ? block.left / 2
                             : doubles_columns(finish.kind) ? 2 * block.left
                                                            : block.left;
  const int64_t inner_column = doubles_columns(finish.kind) ? 2 * block.left : block.left;
  const auto element_bytes = static_cast<int64_t>(c10::elementSize(finish.out_type));
  finish.out = static_cast<char*>(finish.out) + (block.top * finish.out_stride + out_column) * element_bytes;
  if (finish.bias) finish.bias = static_cast<const T*>(finish.bias) + block.left;
  if (finish.inner) finish.inner = static_cast<T*>(finish.inner) + block.top * finish.inner_stride + inner_column;
  if (finish.factors) finish.factors += block.top;
  if (finish.weights) finish.weights += block.top;
  if (finish.sums) finish.sums += block.top * finish.sums_stride + block.left / weight_columns;
  return finish;
}

template <typename T>
void multiply_block(const TeamProduct& product, const Block& block) {
  multiply<T>(from<T>(product.a, 0, block.top), from<T>(product.b, 0, block.left),
              {block.bottom - block.top, block.right - block.left, product.k}, finish_of<T>(product.finish, block));
}

// Products without elements, and sums to which nothing is added.
inline bool is_empty(const TeamProduct& product) {
  return product.m == 0 || product.n == 0 || (product.k == 0 && product.finish.kind == Finish::Kind::accumulate);
}

template <typename T>
void multiply_team(std::vector<TeamProduct> products) {
  std::erase_if(products, is_empty);
  double whole = 0;
  for (const TeamProduct& product : products) whole += DividedProduct(product).cost();
  const int64_t threads = threads_of_product();
  const double of_thread = whole / static_cast<double>(threads);
  at::parallel_for(0, threads, 1, [&](int64_t first, int64_t last) {
    const double begin = of_thread * static_cast<double>(first), end = of_thread * static_cast<double>(last);
    double before = 0;
    for (const TeamProduct& product : products) {
      const DividedProduct divided(product);
      // Both threads at a boundary compute it from the same numbers.
      const auto tile = [&](double place) {
        return divided.tile_at(std::clamp((place - before) / divided.cost(), 0.0, 1.0), of_thread);
      };
      const int64_t stop = last == threads ? divided.tile_at(1, of_thread) : tile(end);
      divided.for_blocks(tile(begin), stop, [&](const Block& block) { multiply_block<T>(product, block); });
      before += divided.cost();
    }
  });
}

}  // namespace terrace::ops::cpu::TERRACE_VECTOR_SET
