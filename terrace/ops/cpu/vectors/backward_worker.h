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

// Rows of heads [.., H, hd], and numbers by head [B, H, ..], in memory.
struct RowStrides {
  int64_t sequence, row;  // elements from a sequence to the next, and from a query to the next
};
struct NumberStrides {
  int64_t sequence, head;  // numbers from a sequence to the next, and from a head to the next
};

// The inputs and results of backward. Of whole sequences `context` and `joint_gradient` are set; of a part, `products`
// and the sums to which its gradients are added.
template <typename T>
struct BackwardTensors {
  const T* context_gradient;
  RowStrides context_strides;  // of its gradient, and of the context
  const float* log_sums;
  NumberStrides log_strides;

  const T* context = nullptr;
  T* joint_gradient = nullptr;  // contiguous

  const float* products = nullptr;
  NumberStrides product_strides = {};
  float* query_sums = nullptr;  // [B, T, H, hd]
  RowStrides query_strides = {};
  float* key_value_sums = nullptr;  // [B, S, groups, 2, hd]
  RowStrides key_value_strides = {};
};

// The products of the rows of a panel of the context's gradient with those of a panel of the context, summed in the
// order of a score's gradient, so that the two cancel exactly if a query attends to a single key.
template <typename T>
TERRACE_VECTOR_INLINE OneVector products_of_rows(const float* gradients, const float* contexts, int64_t words) {
  OneVector sum = zeros();
  for (int64_t from = 0; from < words; from += words_added_in_a_row) {
    OneVector of_piece = zeros();
    const int64_t to = std::min(words, from + words_added_in_a_row);
    for (int64_t i = from * lanes; i < to * lanes; i += lanes) {
      of_piece = multiply_add<T>(load(gradients + i), load(contexts + i), of_piece);
    }
    sum = from == 0 ? of_piece : (sum + of_piece);
  }
  return sum;
}

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

  // Processes the blocks [begin, end) of queries, counted over the heads of the group: computes the gradients of the
  // queries and adds to those of keys and values, [padded][width] each.
  void run(int64_t begin, int64_t end, float* key_sums, float* value_sums) {
    for (int64_t item = begin; item < end; ++item) {
      head_ = item / s_.blocks;
      query_begin_ = item % s_.blocks * block;
      query_end_ = std::min(s_.queries.length, query_begin_ + block);
      int64_t first = s_.aligned ? query_begin_ : s_.padded;
      for (int64_t tile = 0; tile * tile_rows < query_end_ - query_begin_; ++tile) {
        first_keys_[tile] = mask_.first_key(query_begin_ + tile * tile_rows);
        first = std::min(first, first_keys_[tile]);
      }
      // In causal attention the block of keys at the queries' own positions comes first and the ones before it follow.
      const int64_t limit = std::max<int64_t>(0, mask_.limit(query_end_ - 1));
      const int64_t keys_end = s_.aligned ? query_begin_ : round_up(limit, lanes);
      if (!s_.aligned && first >= keys_end) continue;
      for (; packed_keys_ < keys_end; packed_keys_ += block) {
        pack_keys(packed_keys_, std::min(s_.keys.length, packed_keys_ + block));
      }
      if (s_.aligned) {
        add_diagonal(key_sums, value_sums);
        add_queries(query_begin_, std::min(s_.padded, query_begin_ + block), false);
      } else {
        pack_all_queries();
      }
      add_blocks(first / block * block, keys_end, key_sums, value_sums);
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

  // Processes the blocks of keys from `begin` on, and finishes the queries.
  void add_blocks(int64_t begin, int64_t end, float* key_sums, float* value_sums) {
    bool add = s_.aligned;
    for (int64_t key = begin; key < end; key += block) {
      const int64_t key_end = std::min(end, key + block);
      if (!s_.whole && in_other_documents(key, std::min(s_.keys.length, key_end))) continue;
      add_keys(key, key_end, key_sums, value_sums);
      add_queries(key, key_end, add);
      add = true;
    }
    if (add) finish_queries();
  }

  bool in_other_documents(int64_t begin, int64_t end) const {
    if (!mask_.key_documents) return false;
    const DocumentSpan queries = DocumentSpan::of(mask_.query_documents, query_begin_, query_end_);
    return !queries.meets(DocumentSpan::of(mask_.key_documents, begin, end));
  }

  TERRACE_VECTOR_CODE void pack_keys(int64_t begin, int64_t end) {
    const T* keys = s_.key_rows(b_, group_);
    const int64_t word = begin * s_.words;
    pack(keys, s_.keys.row, begin, end, s_.key_rotation(b_), key_panels_ + word, key_pairs_ + word);
    pack(keys + s_.head_dim, s_.keys.row, begin, end, {}, value_panels_ + word, nullptr);
  }

  // Packs one panel of queries with the context, its gradient and the sums of the rows.
  TERRACE_VECTOR_CODE void pack_queries(int64_t begin, int64_t end) {
    const int64_t first = begin - query_begin_, word = first * s_.words;
    pack(s_.query_rows(b_, group_, head_), s_.queries.row, begin, end, s_.query_rotation(b_), query_panels_ + word,
         query_pairs_ + word);
    pack(t_.context_gradient + context_offset(), t_.context_strides.row, begin, end, {}, gradient_panels_ + word,
         gradient_pairs_ + word);
    if (t_.context) {
      pack(t_.context + context_offset(), t_.context_strides.row, begin, end, {}, context_panel_, nullptr);
      store(products_ + first, products_of_rows<T>(gradient_panels_ + word, context_panel_, s_.words));
    } else {
      copy_numbers(t_.products, t_.product_strides, begin, end, products_ + first);
    }
    copy_numbers(t_.log_sums, t_.log_strides, begin, end, log_sums_ + first);
  }

  // Copies the numbers of one panel of queries, and zeros.
  TERRACE_VECTOR_INLINE void copy_numbers(const float* numbers, const NumberStrides& strides, int64_t begin,
                                          int64_t end, float* to) const {
    const float* from = numbers + b_ * strides.sequence + head_of_all() * strides.head;
    std::fill(to, to + lanes, 0.0f);
    std::copy(from + begin, from + end, to);
  }

  int64_t head_of_all() const { return group_ * s_.per_group + head_; }
  int64_t context_offset() const { return b_ * t_.context_strides.sequence + head_of_all() * s_.head_dim; }
  // The offset in the gradient of the joint projection of the first column of vector `index` of the group.
  int64_t joint_offset(int64_t index) const { return b_ * s_.queries.sequence_stride + s_.column(group_, index); }

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
    const int64_t context = context_offset() + row * t_.context_strides.row, query = row * s_.queries.row;
    prefetch_row<false>(s_.key_rows(b_, group_) + row * s_.keys.row, 2 * s_.head_dim);
    prefetch_row<false>(s_.query_rows(b_, group_, head_) + query, s_.head_dim);
    prefetch_row<false>(t_.context_gradient + context, s_.head_dim);
    if (!s_.whole) return;
    prefetch_row<false>(t_.context + context, s_.head_dim);
    prefetch_row<true>(t_.joint_gradient + joint_offset(s_.per_group) + query, 2 * s_.head_dim);
    prefetch_row<true>(t_.joint_gradient + joint_offset(head_) + query, s_.head_dim);
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
    const int64_t from = std::max<int64_t>(0, mask_.first_query(key) - query_begin_) / tile_rows * tile_rows;
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
    const Rotation rotation = s_.query_rotation(b_);
    for (int64_t query = query_begin_; query < query_end_; ++query) {
      const float* sums = query_sums_ + (query - query_begin_) * s_.width;
      if (t_.joint_gradient) {
        scatter_row(sums, s_.scale, rotation, query, s_.head_dim,
                    t_.joint_gradient + joint_offset(head_) + query * s_.queries.row);
      } else {
        const int64_t offset = b_ * t_.query_strides.sequence + head_of_all() * s_.head_dim;
        add_row(sums, s_.scale, rotation, query, s_.head_dim, t_.query_sums + offset + query * t_.query_strides.row);
      }
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
