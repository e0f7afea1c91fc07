// Chooses how a matrix product is computed.
#pragma once

#include <algorithm>
#include <cstdint>

#include "terrace/ops/cpu/matmul.h"
#include "terrace/ops/cpu/vectors/matmul_by_panels.h"
#include "terrace/ops/cpu/vectors/matmul_by_rows.h"

namespace terrace::ops::cpu::TERRACE_VECTOR_SET {

// Where A is packed, a sum in fp32 is computed in equal pieces of at most this length of k and this many rows, so that
// the packed pieces of A are small and stay in the cache.
constexpr int64_t piece_of_k = 1024;
constexpr int64_t piece_of_m = product_copied_rows;

// Whether C is a sum of products in fp32, which needs no rounding after each.
inline bool adds_pieces(const Finish& finish) {
  const bool sums = finish.kind == Finish::Kind::accumulate || finish.kind == Finish::Kind::store;
  return sums && finish.bias == nullptr && finish.out_type == c10::ScalarType::Float;
}

template <typename T>
void multiply(const Factor& a, const Factor& b, const MatmulSize& size, const Finish& finish) {
  if (a.k_inner) return ProductByPanels<T>(a, b, size, finish).run();
  const int64_t pieces = adds_pieces(finish) ? std::max<int64_t>((size.k + piece_of_k - 1) / piece_of_k, 1) : 1;
  const int64_t length = std::max<int64_t>((size.k + pieces - 1) / pieces, 1);
  const int64_t steps = (std::min(length, size.k) + word_elements<T> - 1) / word_elements<T>;
  if (goes_by_rows(a, size.n, steps)) return ProductByRows<T>(a, b, size, length, finish).run();
  const auto row_bytes = finish.out_stride * static_cast<int64_t>(c10::elementSize(finish.out_type));
  for (int64_t top = 0; top < size.m; top += piece_of_m) {
    Finish own = finish;
    own.out = static_cast<char*>(finish.out) + top * row_bytes;
    for (int64_t first = 0; first < size.k || first == 0; first += length) {
      const MatmulSize piece{std::min(piece_of_m, size.m - top), size.n, std::min(length, size.k - first)};
      ProductByPanels<T>(from<T>(a, first, top), from<T>(b, first, 0), piece, own).run();
      own.kind = Finish::Kind::accumulate;
    }
  }
}

}  // namespace terrace::ops::cpu::TERRACE_VECTOR_SET
