// Attention backward of one group of heads: block by block, the probabilities are recomputed from the
// scores and the sums of the rows (Dao, arXiv 2307.08691, algorithm 2, with the loop over queries outside).
#pragma once

#include "terrace/ops/cpu/vectors/attention.h"
#include "terrace/ops/cpu/vectors/exponential.h"

namespace terrace::ops::cpu::TERRACE_VECTOR_SET {

// The operands of one panel of keys and one tile of queries.
struct TileOperands {
  const float *queries, *gradients, *keys, *values;  // panels; gradients are the context's
  const float *log_sums, *products;                  // per query: log_sums, and products of context and its gradient
  float *probabilities, *differences;                // pairs of queries [tile_rows / word_elements][lanes]
  float* rows;                                       // the differences as rows [tile_rows][block_words]
};

// Computes the probabilities P and the gradient of the scores, P * (dP - row product), from sums in registers.
template <typename T>
TERRACE_VECTOR_INLINE void gradient_tile(const TileOperands& at, int64_t words, float factor, int64_t query,
                                         int64_t key, KeyMask keys) {
  OneVector scores[tile_rows], gradients[tile_rows];
  for (int64_t begin = 0; begin < words; begin += words_added_in_a_row) {
    OneVector of_scores[tile_rows], of_gradients[tile_rows];
#pragma GCC unroll 8
    for (int r = 0; r < tile_rows; ++r) of_scores[r] = of_gradients[r] = zeros();
    for (int64_t word = begin; word < std::min(words, begin + words_added_in_a_row); ++word) {
      const OneVector key_words = load(at.keys + word * lanes);
      const OneVector value_words = load(at.values + word * lanes);
#pragma GCC unroll 8
      for (int r = 0; r < tile_rows; ++r) {
        of_scores[r] = multiply_add<T>(broadcast(at.queries[word * lanes + r]), key_words, of_scores[r]);
        of_gradients[r] = multiply_add<T>(broadcast(at.gradients[word * lanes + r]), value_words, of_gradients[r]);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < tile_rows; ++r) {
      scores[r] = begin == 0 ? of_scores[r] : (scores[r] + of_scores[r]);
      gradients[r] = begin == 0 ? of_gradients[r] : (gradients[r] + of_gradients[r]);
    }
  }
  const bool whole = key + lanes <= keys.unmasked(query);
#pragma GCC unroll 8
  for (int r = 0; r < tile_rows; ++r) {
    const LaneMask mask = whole ? all_lanes() : keys.visible(query + r, key);
    const OneVector x = times_minus(scores[r], broadcast(factor), broadcast(at.log_sums[r]));
    scores[r] = where(mask, power_of_two<T>(x));
    const OneVector difference = (gradients[r] - broadcast(at.products[r]));
    gradients[r] = where(mask, scores[r] * difference);
    store_narrow(reinterpret_cast<Operand<T>*>(at.rows + r * block_words), gradients[r]);
  }
#pragma GCC unroll 8
  for (int r = 0; r < tile_rows; r += word_elements<T>) {
    if constexpr (word_elements<T> == 1) {
      store(at.probabilities + r * lanes, scores[r]);
      store(at.differences + r * lanes, gradients[r]);
    } else {
      store(at.probabilities + r / 2 * lanes, paired<T>(scores[r], scores[r + 1]));
      store(at.differences + r / 2 * lanes, paired<T>(gradients[r], gradients[r + 1]));
    }
  }
}

template <typename T>
struct BackwardTensors {
  const T *context, *context_gradient;
  const float* log_sums;
  T* joint_gradient;
};

template <typename T>
class BackwardWorker {
 public:
  static constexpr int64_t block = block_rows<T>;

  BackwardWorker(const AttentionSizes<T>& sizes, const BackwardTensors<T>& tensors)
      : s_(sizes),
        t_(tensors),
        scratch_(3 * s_.padded * s_.width + block * 7 * s_.width + 2 * block + block * block_words +
                 2 * block_words * lanes + 16 * lanes),
        key_panels_(scratch_.take(s_.padded * s_.words)),
        value_panels_(scratch_.take(s_.padded * s_.words)),
        key_pairs_(scratch_.take(s_.padded * s_.words)),
        rows_(scratch_.take(block * s_.words)),
        query_panels_(scratch_.take(block * s_.words)),
        query_pairs_(scratch_.take(block * s_.words)),
        gradient_panels_(scratch_.take(block * s_.words)),
        gradient_pairs_(scratch_.take(block * s_.words)),
        context_panel_(scratch_.take(lanes * s_.words)),
        query_sums_(scratch_.take(block * s_.width)),
        log_sums_(scratch_.take(block)),
        products_(scratch_.take(block)),
        difference_rows_(scratch_.take(block * block_words)),
        probabilities_(scratch_.take(block_words * lanes)),
        differences_(scratch_.take(block_words * lanes)) {}

  void begin(int64_t b, int64_t group) {
    b_ = b;
    group_ = group;
    mask_ = s_.mask_of(b);
    packed_keys_ = 0;
  }

  // Processes the blocks [begin, end) of queries, counted over the heads of the group: writes the gradients of the
  // queries and adds to the gradients of keys and values, [padded][width] each.
  void run(int64_t begin, int64_t end, float* key_sums, float* value_sums) {
    for (int64_t item = begin; item < end; ++item) {
      head_ = item / s_.blocks;
      query_begin_ = item % s_.blocks * block;
      query_end_ = std::min(s_.length, query_begin_ + block);
      int64_t first = query_begin_;
      for (int64_t tile = 0; tile * tile_rows < query_end_ - query_begin_; ++tile) {
        first_keys_[tile] = mask_.first_key(query_begin_ + tile * tile_rows);
        first = std::min(first, first_keys_[tile]);
      }
      // In causal attention the block of keys at the queries' own positions comes first and the ones before it follow.
      const int64_t keys_end = s_.causal ? query_begin_ : s_.padded;
      for (; packed_keys_ < keys_end; packed_keys_ += block) {
        pack_keys(packed_keys_, std::min(s_.length, packed_keys_ + block));
      }
      if (s_.causal) {
        add_diagonal(key_sums, value_sums);
        add_queries(query_begin_, std::min(s_.padded, query_begin_ + block), false);
      } else {
        pack_all_queries();
      }
      first = first / block * block;
      for (int64_t key = first; key < keys_end; key += block) {
        const int64_t key_end = std::min(keys_end, key + block);
        add_keys(key, key_end, key_sums, value_sums);
        add_queries(key, key_end, s_.causal || key > first);
      }
      finish_queries();
    }
  }

 private:
  TERRACE_VECTOR_INLINE void pack(const T* head, int64_t stride, int64_t begin, int64_t end, const Rotation& rotation,
                                  float* panels, float* pairs) {
    const int64_t n = round_up(end - begin, lanes);
    float* rows = word_elements<T> == 1 && pairs ? pairs : rows_;
    gather_rows(head, stride, begin, end, rotation, s_.head_dim, rows);
    rows_to_panels(rows, n, s_.words, panels);
    if constexpr (word_elements<T> == 2) {
      if (pairs) rows_to_pairs<T>(rows, n, s_.width, pairs);
    }
  }

  TERRACE_VECTOR_CODE void pack_keys(int64_t begin, int64_t end) {
    const T* keys = s_.joint + s_.offset(b_, group_, s_.per_group);
    const int64_t word = begin * s_.words;
    pack(keys, s_.columns, begin, end, s_.rotation_of(b_), key_panels_ + word, key_pairs_ + word);
    pack(keys + s_.head_dim, s_.columns, begin, end, {}, value_panels_ + word, nullptr);
  }

  // Packs one panel of queries with the context, its gradient and the sums of the rows.
  TERRACE_VECTOR_CODE void pack_queries(int64_t begin, int64_t end) {
    const int64_t first = begin - query_begin_, word = first * s_.words;
    pack(s_.joint + s_.offset(b_, group_, head_), s_.columns, begin, end, s_.rotation_of(b_), query_panels_ + word,
         query_pairs_ + word);
    pack(t_.context_gradient + context_offset(), context_row(), begin, end, {}, gradient_panels_ + word,
         gradient_pairs_ + word);
    pack(t_.context + context_offset(), context_row(), begin, end, {}, context_panel_, nullptr);
    // Summed in the order of a score's gradient, so that the two cancel exactly if a query attends to a single key.
    OneVector sum = zeros();
    for (int64_t from = 0; from < s_.words; from += words_added_in_a_row) {
      OneVector of_piece = zeros();
      const int64_t to = std::min(s_.words, from + words_added_in_a_row);
      for (int64_t i = from * lanes; i < to * lanes; i += lanes) {
        of_piece = multiply_add<T>(load(gradient_panels_ + word + i), load(context_panel_ + i), of_piece);
      }
      sum = from == 0 ? of_piece : (sum + of_piece);
    }
    store(products_ + first, sum);
    const float* log_sums = t_.log_sums + (b_ * s_.heads() + group_ * s_.per_group + head_) * s_.length;
    std::fill(log_sums_ + first, log_sums_ + first + lanes, 0.0f);
    std::copy(log_sums + begin, log_sums + end, log_sums_ + first);
  }

  int64_t context_row() const { return s_.heads() * s_.head_dim; }
  int64_t context_offset() const {
    return b_ * s_.length * context_row() + (group_ * s_.per_group + head_) * s_.head_dim;
  }

  TERRACE_VECTOR_CODE void pack_all_queries() {
    for (int64_t begin = query_begin_; begin < query_end_; begin += lanes) {
      pack_queries(begin, std::min(query_end_, begin + lanes));
    }
  }

  // The block of keys at the queries' own positions. No earlier query attends to a panel of keys, so keys and queries
  // are packed panel by panel from the last to the first, which spreads the reads from memory over the computation.
  TERRACE_VECTOR_CODE void add_diagonal(float* key_sums, float* value_sums) {
    const bool pack = packed_keys_ == query_begin_;
    for (int64_t begin = (query_end_ - 1) / lanes * lanes; begin >= query_begin_; begin -= lanes) {
      const int64_t end = std::min(query_end_, begin + lanes);
      rows_ahead_ = begin > query_begin_ ? begin - lanes : -1;
      if (pack) pack_keys(begin, end);
      pack_queries(begin, end);
      add_panel(begin, query_begin_, key_sums, value_sums);
    }
    rows_ahead_ = -1;
    if (pack) packed_keys_ = query_begin_ + block;
  }

  // Prefetches a row of the inputs for reading and of the gradient for writing.
  TERRACE_VECTOR_INLINE void prefetch(int64_t row) const {
    const int64_t keys = s_.offset(b_, group_, s_.per_group) + row * s_.columns;
    const int64_t queries = s_.offset(b_, group_, head_) + row * s_.columns;
    const int64_t context = context_offset() + row * context_row();
    prefetch_row<false>(s_.joint + keys, 2 * s_.head_dim);
    prefetch_row<false>(s_.joint + queries, s_.head_dim);
    prefetch_row<false>(t_.context + context, s_.head_dim);
    prefetch_row<false>(t_.context_gradient + context, s_.head_dim);
    prefetch_row<true>(t_.joint_gradient + keys, 2 * s_.head_dim);
    prefetch_row<true>(t_.joint_gradient + queries, s_.head_dim);
  }

  // Prefetches share `tile` of `tiles` of the next panel's rows, between computations, since the processor can wait for
  // only a few lines at a time.
  TERRACE_VECTOR_INLINE void prefetch_share(int64_t tile, int64_t tiles) const {
    if (rows_ahead_ < 0) return;
    for (int64_t row = tile * lanes / tiles; row < (tile + 1) * lanes / tiles; ++row) prefetch(rows_ahead_ + row);
  }

  TERRACE_VECTOR_CODE void add_keys(int64_t begin, int64_t end, float* key_sums, float* value_sums) {
    for (int64_t key = begin; key < end; key += lanes) add_panel(key, begin, key_sums, value_sums);
  }

  // Adds to the gradients of the panel's keys and values, and writes the gradient of the scores to difference_rows_,
  // whose first key is `begin`.
  TERRACE_VECTOR_INLINE void add_panel(int64_t key, int64_t begin, float* key_sums, float* value_sums) {
    constexpr int64_t tile_floats = tile_rows / word_elements<T> * lanes;
    const int64_t queries = round_up(query_end_ - query_begin_, tile_rows);
    const float factor = s_.scale * 1.44269504f;
    const int64_t from = std::max<int64_t>(0, mask_.first_query(key) - query_begin_);
    int64_t first = -1, last = -1;
    for (int64_t query = from; query < queries; query += tile_rows) {
      prefetch_share((query - from) / tile_rows, (queries - from) / tile_rows);
      float* probabilities = probabilities_ + query / tile_rows * tile_floats;
      float* differences = differences_ + query / tile_rows * tile_floats;
      if (first_keys_[query / tile_rows] > key) {
        // Happens where the key is before the windows of later queries, and if the tokens of a document are not
        // consecutive.
        std::fill(probabilities, probabilities + tile_floats, 0.0f);
        std::fill(differences, differences + tile_floats, 0.0f);
        continue;
      }
      if (first < 0) first = query;
      last = query + tile_rows;
      const int64_t panel = query / lanes * lanes * s_.words + query % lanes;
      const TileOperands operands{.queries = query_panels_ + panel,
                                  .gradients = gradient_panels_ + panel,
                                  .keys = key_panels_ + key * s_.words,
                                  .values = value_panels_ + key * s_.words,
                                  .log_sums = log_sums_ + query,
                                  .products = products_ + query,
                                  .probabilities = probabilities,
                                  .differences = differences,
                                  .rows = difference_rows_ + query * block_words + (key - begin) / word_elements<T>};
      gradient_tile<T>(operands, s_.depth, factor, query_begin_ + query, key, mask_);
    }
    if (first < 0) return;
    sum_over_queries(probabilities_, gradient_pairs_, first, last, value_sums + key * s_.width);
    sum_over_queries(differences_, query_pairs_, first, last, key_sums + key * s_.width);
  }

  // sums[lanes][width] += the panel [queries / word_elements][lanes], transposed, times the pairs.
  TERRACE_VECTOR_INLINE void sum_over_queries(const float* panel, const float* pairs, int64_t first, int64_t last,
                                              float* sums) {
    const int64_t begin = first / word_elements<T>, steps = (last - first) / word_elements<T>;
    const float *a = panel + begin * lanes, *b = pairs + begin * s_.width;
    if constexpr (tile_vectors == 2) {
      for (int64_t i = 0; i < s_.width; i += lanes) {
        product_tile<T, lanes, 1, 1, lanes>(a, b + i, s_.width, 0, sums + i, s_.width, steps, true);
      }
    } else {  // as many rows would not leave registers for several vectors of columns
      for (int64_t row = 0; row < lanes; row += tile_rows) {
        product_columns<T, tile_rows, 1, lanes>(a + row, b, s_.width, sums + row * s_.width, s_.width, steps,
                                                s_.width / lanes, true);
      }
    }
  }

  // Adds the contributions of keys [begin, end), a multiple of `lanes`, to the gradients of the queries.
  TERRACE_VECTOR_CODE void add_queries(int64_t begin, int64_t end, bool add) {
    const int64_t queries = round_up(query_end_ - query_begin_, tile_rows);
    for (int64_t query = 0; query < queries; query += tile_rows) {
      const int64_t from = std::max(begin, first_keys_[query / tile_rows]);
      const int64_t to = std::min(end, round_up(mask_.limit(query_begin_ + query + tile_rows - 1), tile_rows));
      const int64_t steps = std::max<int64_t>(0, to - from) / word_elements<T>;
      const float* rows = difference_rows_ + query * block_words + (from - begin) / word_elements<T>;
      product_columns<T, tile_rows, block_words, 1>(rows, key_pairs_ + from * s_.words, s_.width,
                                                    query_sums_ + query * s_.width, s_.width, steps, s_.width / lanes,
                                                    add);
    }
  }

  TERRACE_VECTOR_CODE void finish_queries() {
    T* to = t_.joint_gradient + s_.offset(b_, group_, head_);
    for (int64_t query = query_begin_; query < query_end_; ++query) {
      scatter_row(query_sums_ + (query - query_begin_) * s_.width, s_.scale, s_.rotation_of(b_), query, s_.head_dim,
                  to + query * s_.columns);
    }
  }

  const AttentionSizes<T>& s_;
  const BackwardTensors<T>& t_;
  Scratch scratch_;
  float *key_panels_, *value_panels_, *key_pairs_, *rows_, *query_panels_, *query_pairs_, *gradient_panels_,
      *gradient_pairs_, *context_panel_, *query_sums_, *log_sums_, *products_, *difference_rows_, *probabilities_,
      *differences_;
  int64_t b_ = 0, group_ = 0, head_ = 0, query_begin_ = 0, query_end_ = 0, packed_keys_ = 0, rows_ahead_ = -1;
  KeyMask mask_;
  int64_t first_keys_[block / tile_rows] = {};  // by tile of queries: KeyMask::first_key()
};

}  // namespace terrace::ops::cpu::TERRACE_VECTOR_SET
