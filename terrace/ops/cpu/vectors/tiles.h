// The inner loops of attention: products of small tiles whose sums stay in registers.
#pragma once

#include <algorithm>
#include <cstdint>

#include "terrace/ops/cpu/vectors/vectors.h"

namespace terrace::ops::cpu::TERRACE_VECTOR_SET {

constexpr int64_t block_words = 128;  // keys or queries of a block, in words

template <typename T>
constexpr int64_t block_rows = block_words* word_elements<T>;

// c[rows][lanes * vectors] = or += the sum over steps of a[row] * b. Word (row, step) of `a` is at row * a_row + step *
// a_step; vector v of a step of `b` is at step * b_step + v * b_vector.
template <typename T, int rows, int vectors, int a_row, int a_step>
TERRACE_VECTOR_INLINE void product_tile(const float* a, const float* b, int64_t b_step, int64_t b_vector, float* c,
                                        int64_t c_row, int64_t steps, bool add) {
  OneVector sums[rows][vectors];
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      sums[r][v] = add ? load(c + r * c_row + v * lanes) : zeros();
    }
  }
  for (int64_t step = 0; step < steps; ++step, a += a_step, b += b_step) {
    OneVector vector[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) vector[v] = load(b + v * b_vector);
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) {
      const OneVector word = broadcast(a[r * a_row]);
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) sums[r][v] = multiply_add<T>(word, vector[v], sums[r][v]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) store(c + r * c_row + v * lanes, sums[r][v]);
  }
}

// The number of vectors of columns, of `count`, that the next tile takes: one to three, and no single one after others.
constexpr int64_t vectors_of_tile(int64_t count) {
  if (count <= 3) return count;
  return tile_vectors == 3 ? (count == 4 ? 2 : 3) : (count % 2 == 1 ? 3 : 2);
}

// Calls product_tile for `count` vectors of columns that are contiguous in b and c.
template <typename T, int rows, int a_row, int a_step>
TERRACE_VECTOR_INLINE void product_columns(const float* a, const float* b, int64_t b_step, float* c, int64_t c_row,
                                           int64_t steps, int64_t count, bool add) {
  while (count > 0) {
    const int64_t vectors = vectors_of_tile(count);
    if (vectors == 3) {
      product_tile<T, rows, 3, a_row, a_step>(a, b, b_step, lanes, c, c_row, steps, add);
    } else if (vectors == 2) {
      product_tile<T, rows, 2, a_row, a_step>(a, b, b_step, lanes, c, c_row, steps, add);
    } else {
      product_tile<T, rows, 1, a_row, a_step>(a, b, b_step, lanes, c, c_row, steps, add);
    }
    b += vectors * lanes;
    c += vectors * lanes;
    count -= vectors;
  }
}

// Longer sums over head_dim are added in pieces, since rounding errors grow with the number of additions in a row.
// Forward and backward add in the same order: the probabilities that backward recomputes fit the sums of the rows only
// with the same scores.
constexpr int64_t words_added_in_a_row = 64;

// c[r][v][lanes] = the scores of `words` words, for tile_rows rows and `vectors` panels of keys.
template <typename T, int vectors>
TERRACE_VECTOR_INLINE void score_tile(const float* a, const float* b, int64_t b_vector, float* c, int64_t c_row,
                                      int64_t words) {
  product_tile<T, tile_rows, vectors, 1, lanes>(a, b, lanes, b_vector, c, c_row, std::min(words, words_added_in_a_row),
                                                false);
  for (int64_t begin = words_added_in_a_row; begin < words; begin += words_added_in_a_row) {
    alignas(64) float piece[tile_rows * vectors * lanes];
    product_tile<T, tile_rows, vectors, 1, lanes>(a + begin * lanes, b + begin * lanes, lanes, b_vector, piece,
                                                  vectors * lanes, std::min(words - begin, words_added_in_a_row),
                                                  false);
    for (int64_t r = 0; r < tile_rows; ++r) {
      for (int64_t v = 0; v < vectors * lanes; v += lanes) {
        const OneVector sum = (load(c + r * c_row + v) + load(piece + r * vectors * lanes + v));
        store(c + r * c_row + v, sum);
      }
    }
  }
}

// A distance of places beyond every key.
constexpr int64_t never = int64_t{1} << 40;

// The keys that each query of a sequence attends to: the first limit(query), or those of them in the query's document
// and window.
struct KeyMask {
  int64_t keys = 0;    // all of them
  int64_t shared = 0;  // leading keys that every query attends to: none in causal attention, else all
  int64_t ahead = 0;   // the place of query 0 less that of key 0; -never if every query attends to all keys
  // For each query and key the place at which its document begins, or null.
  const int32_t *query_documents = nullptr, *key_documents = nullptr;
  int64_t first_place = 0;  // of key 0, in the numbers of documents
  int64_t window = 0;       // keys up to the query's own; 0: all. Without shared keys

  int64_t limit(int64_t query) const { return std::min(keys, std::max(query + 1 + ahead, shared)); }
  // The first query whose limit is beyond the key, or a negative number before query 0.
  int64_t first_query(int64_t key) const { return key < shared ? 0 : key - ahead; }
  // The number of leading keys that need no mask for the query.
  int64_t unmasked(int64_t query) const { return hides_early_keys() ? 0 : limit(query); }
  bool hides_early_keys() const { return query_documents != nullptr || window > 0; }

  // Masks those keys of a vector, from `key` on, that the query attends to.
  TERRACE_VECTOR_INLINE LaneMask visible(int64_t query, int64_t key) const {
    LaneMask mask = first_lanes(limit(query) - key);
    if (query_documents) mask = both(mask, equal_lanes(key_documents + key, query_documents[query]));
    if (window > 0) mask = without(mask, first_lanes(query + ahead + 1 - window - key));
    return mask;
  }

  // The first key, a multiple of `lanes`, of the panels that the tile's queries attend to.
  int64_t first_key(int64_t query) const {
    const int64_t in_window = window > 0 ? std::max<int64_t>(query + ahead + 1 - window, 0) / lanes * lanes : 0;
    return query_documents ? std::max(in_window, first_key_of_documents(query)) : in_window;
  }

 private:
  int64_t first_key_of_documents(int64_t query) const {
    const int32_t* tile = query_documents + query;
    int32_t least = tile[0];
    // Padding of a sequence has -1 and attends to nothing.
    for (int64_t row = 1; row < tile_rows; ++row) least = tile[row] >= 0 ? std::min(least, tile[row]) : least;
    return std::max<int64_t>(least - first_place, 0) / lanes * lanes;
  }
};

// The numbers of the documents of some tokens, from the least to the greatest.
struct DocumentSpan {
  int32_t least = 0, greatest = 0;

  // `end` is after `begin`.
  static DocumentSpan of(const int32_t* documents, int64_t begin, int64_t end) {
    const auto [least, greatest] = std::minmax_element(documents + begin, documents + end);
    return {*least, *greatest};
  }
  bool meets(const DocumentSpan& other) const { return least <= other.greatest && other.least <= greatest; }
};

}  // namespace terrace::ops::cpu::TERRACE_VECTOR_SET
