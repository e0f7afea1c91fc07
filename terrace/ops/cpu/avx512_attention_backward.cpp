// Attention backward on the CPU, for AVX-512: probabilities are made again from the scores and the rows' sums, block by
// block (Dao, arXiv 2307.08691, algorithm 2, with the loop over queries outside).
#include "terrace/ops/cpu/avx512_attention.h"

namespace terrace::ops::cpu {
namespace {

// Rows of queries, of all heads of a group, whose contributions to the gradients of keys and values are summed before
// they meet those of others. Fixed, so that the sums do not depend on the threads.
constexpr int64_t piece_rows = 1024;

// Where the sixteen keys of a panel and the eight queries of a tile meet.
struct TileOperands {
  const float *queries, *gradients, *keys, *values;  // panels: of queries and of the context's gradient, of the keys
  const float *log_sums, *products;                  // per query; products of context and gradient
  float *probabilities, *differences;                // pairs of queries [tile_rows / word_elements][16]
  float* rows;                                       // the differences as rows [tile_rows][block_words]
};

// Probabilities P and the gradient of the scores P * (dP - row product), both from sums in registers.
template <typename T>
TERRACE_AVX512_INLINE void gradient_tile(const TileOperands& at, int64_t words, float factor, int64_t query,
                                         int64_t key, const int32_t* begins) {
  __m512 scores[tile_rows], gradients[tile_rows];
#pragma GCC unroll 8
  for (int r = 0; r < tile_rows; ++r) scores[r] = gradients[r] = _mm512_setzero_ps();
  for (int64_t word = 0; word < words; ++word) {
    const __m512 key_words = _mm512_loadu_ps(at.keys + word * lanes);
    const __m512 value_words = _mm512_loadu_ps(at.values + word * lanes);
#pragma GCC unroll 8
    for (int r = 0; r < tile_rows; ++r) {
      scores[r] = multiply_add<T>(_mm512_set1_ps(at.queries[word * lanes + r]), key_words, scores[r]);
      gradients[r] = multiply_add<T>(_mm512_set1_ps(at.gradients[word * lanes + r]), value_words, gradients[r]);
    }
  }
  const bool whole = !begins && key + lanes <= query + 1;
#pragma GCC unroll 8
  for (int r = 0; r < tile_rows; ++r) {
    const __mmask16 mask = whole ? 0xFFFF : visible(query + r, key, begins);
    const __m512 x = _mm512_fmsub_ps(scores[r], _mm512_set1_ps(factor), _mm512_set1_ps(at.log_sums[r]));
    scores[r] = _mm512_maskz_mov_ps(mask, power_of_two<T>(x));
    const __m512 difference = _mm512_sub_ps(gradients[r], _mm512_set1_ps(at.products[r]));
    gradients[r] = _mm512_maskz_mul_ps(mask, scores[r], difference);
    store_narrow(reinterpret_cast<T*>(at.rows + r * block_words), gradients[r]);
  }
#pragma GCC unroll 8
  for (int r = 0; r < tile_rows; r += word_elements<T>) {
    if constexpr (word_elements<T> == 1) {
      _mm512_storeu_ps(at.probabilities + r * lanes, scores[r]);
      _mm512_storeu_ps(at.differences + r * lanes, gradients[r]);
    } else {
      _mm512_storeu_ps(at.probabilities + r / 2 * lanes, paired(scores[r], scores[r + 1]));
      _mm512_storeu_ps(at.differences + r / 2 * lanes, paired(gradients[r], gradients[r + 1]));
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
        scratch_(3 * s_.padded * s_.head_dim + block * 7 * s_.head_dim + 2 * block + block * block_words +
                 2 * block_words * lanes + 16 * lanes),
        key_panels_(scratch_.take(s_.padded * s_.words)),
        value_panels_(scratch_.take(s_.padded * s_.words)),
        key_pairs_(scratch_.take(s_.padded * s_.words)),
        rows_(scratch_.take(block * s_.words)),
        query_panels_(scratch_.take(block * s_.words)),
        query_pairs_(scratch_.take(block * s_.words)),
        gradient_panels_(scratch_.take(block * s_.words)),
        gradient_pairs_(scratch_.take(block * s_.words)),
        context_panels_(scratch_.take(block * s_.words)),
        query_sums_(scratch_.take(block * s_.head_dim)),
        log_sums_(scratch_.take(block)),
        products_(scratch_.take(block)),
        difference_rows_(scratch_.take(block * block_words)),
        probabilities_(scratch_.take(block_words * lanes)),
        differences_(scratch_.take(block_words * lanes)) {}

  // The keys and values of a group.
  void begin(int64_t b, int64_t group) {
    b_ = b;
    group_ = group;
    begins_ = s_.begins_of(b);
    pack_keys();
  }

  // The blocks [begin, end) of queries, counted over the heads of the group: writes their gradients and adds to those
  // of keys and values, [padded][hd] each.
  void run(int64_t begin, int64_t end, float* key_sums, float* value_sums) {
    for (int64_t item = begin; item < end; ++item) {
      head_ = item / s_.blocks;
      query_begin_ = item % s_.blocks * block;
      query_end_ = std::min(s_.length, query_begin_ + block);
      pack_queries();
      for (int64_t tile = 0; tile * tile_rows < query_end_ - query_begin_; ++tile) {
        first_keys_[tile] = first_key(query_begin_ + tile * tile_rows, begins_);
      }
      const int64_t first = *std::min_element(first_keys_, first_keys_ + (query_end_ - query_begin_ + 7) / tile_rows);
      for (int64_t key = first / block * block; key < query_end_; key += block) {
        add_keys(key, std::min(s_.length, key + block), key_sums, value_sums);
        add_queries(key, std::min(s_.padded, key + block), key > first);
      }
      finish_queries();
    }
  }

 private:
  TERRACE_AVX512 void pack(const T* head, int64_t stride, int64_t begin, int64_t end, const Rotation& rotation,
                           float* panels, float* pairs) {
    const int64_t n = round_up(end - begin, lanes);
    float* rows = word_elements<T> == 1 && pairs ? pairs : rows_;
    gather_rows(head, stride, begin, end, rotation, s_.head_dim, rows);
    rows_to_panels(rows, n, s_.words, panels);
    if (pairs && rows != pairs) rows_to_pairs(rows, n, s_.head_dim, pairs);
  }

  void pack_keys() {
    const T* keys = s_.joint + s_.offset(b_, group_, s_.per_group);
    for (int64_t key = 0; key < s_.length; key += block) {
      const int64_t end = std::min(s_.length, key + block);
      pack(keys, s_.columns, key, end, s_.rotation_of(b_), key_panels_ + key * s_.words, key_pairs_ + key * s_.words);
      pack(keys + s_.head_dim, s_.columns, key, end, {}, value_panels_ + key * s_.words, nullptr);
    }
  }

  TERRACE_AVX512 void pack_queries() {
    pack(s_.joint + s_.offset(b_, group_, head_), s_.columns, query_begin_, query_end_, s_.rotation_of(b_),
         query_panels_, query_pairs_);
    const int64_t row = s_.heads() * s_.head_dim, head = group_ * s_.per_group + head_;
    const int64_t column = b_ * s_.length * row + head * s_.head_dim;
    pack(t_.context_gradient + column, row, query_begin_, query_end_, {}, gradient_panels_, gradient_pairs_);
    pack(t_.context + column, row, query_begin_, query_end_, {}, context_panels_, nullptr);
    const int64_t n = round_up(query_end_ - query_begin_, lanes);
    // Summed in the order of a score's gradient, so that the two cancel where a query sees one key.
    for (int64_t query = 0; query < n; query += lanes) {
      __m512 sum = _mm512_setzero_ps();
      for (int64_t word = query * s_.words; word < (query + lanes) * s_.words; word += lanes) {
        sum = multiply_add<T>(_mm512_loadu_ps(gradient_panels_ + word), _mm512_loadu_ps(context_panels_ + word), sum);
      }
      _mm512_storeu_ps(products_ + query, sum);
    }
    std::fill(log_sums_, log_sums_ + n, 0.0f);
    const float* log_sums = t_.log_sums + (b_ * s_.heads() + head) * s_.length;
    std::copy(log_sums + query_begin_, log_sums + query_end_, log_sums_);
  }

  // Adds to the gradients of keys [begin, end) and their values, and leaves the scores' gradient in difference_rows_.
  TERRACE_AVX512 void add_keys(int64_t begin, int64_t end, float* key_sums, float* value_sums) {
    constexpr int64_t tile_floats = tile_rows / word_elements<T> * lanes;
    const int64_t queries = round_up(query_end_ - query_begin_, tile_rows);
    const float factor = s_.scale * 1.44269504f;
    for (int64_t key = begin; key < end; key += lanes) {
      int64_t first = -1, last = -1;
      for (int64_t query = std::max<int64_t>(0, key - query_begin_); query < queries; query += tile_rows) {
        float* probabilities = probabilities_ + query / tile_rows * tile_floats;
        float* differences = differences_ + query / tile_rows * tile_floats;
        if (first_keys_[query / tile_rows] > key) {
          // Only documents that come again leave such gaps.
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
        gradient_tile<T>(operands, s_.words, factor, query_begin_ + query, key, begins_);
      }
      if (first < 0) continue;
      sum_over_queries(probabilities_, gradient_pairs_, first, last, value_sums + key * s_.head_dim);
      sum_over_queries(differences_, query_pairs_, first, last, key_sums + key * s_.head_dim);
    }
  }

  // sums[16][hd] += the panel [queries / word_elements][16], transposed, times the pairs.
  TERRACE_AVX512_INLINE void sum_over_queries(const float* panel, const float* pairs, int64_t first, int64_t last,
                                              float* sums) {
    const int64_t begin = first / word_elements<T>, steps = (last - first) / word_elements<T>;
    for (int64_t i = 0; i < s_.head_dim; i += lanes) {
      product_tile<T, lanes, 1, 1, lanes>(panel + begin * lanes, pairs + begin * s_.head_dim + i, s_.head_dim, 0,
                                          sums + i, s_.head_dim, steps, true);
    }
  }

  // The gradients of the queries from keys [begin, end), a multiple of 16 of them.
  TERRACE_AVX512 void add_queries(int64_t begin, int64_t end, bool add) {
    const int64_t queries = round_up(query_end_ - query_begin_, tile_rows);
    for (int64_t query = 0; query < queries; query += tile_rows) {
      const int64_t from = std::max(begin, first_keys_[query / tile_rows]);
      const int64_t to = std::min(end, query_begin_ + query + tile_rows);
      const int64_t steps = std::max<int64_t>(0, to - from) / word_elements<T>;
      const float* rows = difference_rows_ + query * block_words + (from - begin) / word_elements<T>;
      product_columns<T, tile_rows, block_words, 1>(rows, key_pairs_ + from * s_.words, s_.head_dim,
                                                    query_sums_ + query * s_.head_dim, s_.head_dim, steps,
                                                    s_.head_dim / lanes, add);
    }
  }

  TERRACE_AVX512 void finish_queries() {
    T* to = t_.joint_gradient + s_.offset(b_, group_, head_);
    for (int64_t query = query_begin_; query < query_end_; ++query) {
      scatter_row(query_sums_ + (query - query_begin_) * s_.head_dim, s_.scale, s_.rotation_of(b_), query, s_.head_dim,
                  to + query * s_.columns);
    }
  }

  const AttentionSizes<T>& s_;
  const BackwardTensors<T>& t_;
  Scratch scratch_;
  float *key_panels_, *value_panels_, *key_pairs_, *rows_, *query_panels_, *query_pairs_, *gradient_panels_,
      *gradient_pairs_, *context_panels_, *query_sums_, *log_sums_, *products_, *difference_rows_, *probabilities_,
      *differences_;
  int64_t b_ = 0, group_ = 0, head_ = 0, query_begin_ = 0, query_end_ = 0;
  const int32_t* begins_ = nullptr;
  int64_t first_keys_[block / tile_rows] = {};  // of each tile of queries, the first panel of keys that it sees
};

// Writes the gradients of keys and values of rows [begin, end) of a group.
template <typename T>
TERRACE_AVX512 void finish_keys(const AttentionSizes<T>& s, int64_t b, int64_t group, int64_t begin, int64_t end,
                                const float* key_sums, const float* value_sums, T* joint_gradient) {
  T* to = joint_gradient + s.offset(b, group, s.per_group);
  for (int64_t t = begin; t < end; ++t) {
    scatter_row(key_sums + t * s.head_dim, s.scale, s.rotation_of(b), t, s.head_dim, to + t * s.columns);
    scatter_row(value_sums + t * s.head_dim, 1.0f, {}, t, s.head_dim, to + t * s.columns + s.head_dim);
  }
}

TERRACE_AVX512 void add_floats(float* into, const float* from, int64_t n) {
  for (int64_t i = 0; i < n; i += lanes) {
    _mm512_storeu_ps(into + i, _mm512_add_ps(_mm512_loadu_ps(into + i), _mm512_loadu_ps(from + i)));
  }
}

// How a group's blocks of queries are cut in pieces.
template <typename T>
struct Pieces {
  explicit Pieces(const AttentionSizes<T>& s)
      : blocks(s.per_group * s.blocks), size(piece_rows / block_rows<T>), count((blocks + size - 1) / size) {}
  int64_t end(int64_t piece) const { return std::min(blocks, (piece + 1) * size); }
  int64_t blocks, size, count;
};

// A thread takes whole groups, and makes their pieces one after another.
template <typename T>
void by_groups(const AttentionSizes<T>& s, const BackwardTensors<T>& tensors) {
  const Pieces<T> pieces(s);
  const int64_t floats = 2 * s.padded * s.head_dim;
  struct Worker {
    BackwardWorker<T> inner;
    Scratch scratch;
    float *sums, *piece;
  };
  const auto make = [&] {
    const int64_t buffers = std::min<int64_t>(2, pieces.count);
    Scratch scratch(buffers * floats);
    float* sums = scratch.take(buffers * floats);
    return Worker{BackwardWorker<T>(s, tensors), std::move(scratch), sums, sums + floats};
  };
  for_each_item(s.batch * s.groups, make, [&](Worker& worker, int64_t item) {
    const int64_t b = item / s.groups, group = item % s.groups;
    worker.inner.begin(b, group);
    for (int64_t piece = 0; piece < pieces.count; ++piece) {
      float* sums = piece == 0 ? worker.sums : worker.piece;
      std::fill(sums, sums + floats, 0.0f);
      worker.inner.run(piece * pieces.size, pieces.end(piece), sums, sums + floats / 2);
      if (piece > 0) add_floats(worker.sums, sums, floats);
    }
    finish_keys(s, b, group, 0, s.length, worker.sums, worker.sums + floats / 2, tensors.joint_gradient);
  });
}

// Threads share the pieces of a group, for more threads than groups; the sums are added afterwards in the same order.
template <typename T>
void by_pieces(const AttentionSizes<T>& s, const BackwardTensors<T>& tensors) {
  const Pieces<T> pieces(s);
  const int64_t floats = 2 * s.padded * s.head_dim, groups = s.batch * s.groups;
  const at::Tensor memory = at::empty({groups * pieces.count * floats}, at::TensorOptions().dtype(at::kFloat));
  float* all = memory.mutable_data_ptr<float>();
  for_each_item(
      groups * pieces.count, [&] { return BackwardWorker<T>(s, tensors); },
      [&](BackwardWorker<T>& worker, int64_t item) {
        const int64_t group = item % groups, piece = pieces.count - 1 - item / groups;
        float* sums = all + (group * pieces.count + piece) * floats;
        std::fill(sums, sums + floats, 0.0f);
        worker.begin(group / s.groups, group % s.groups);
        worker.run(piece * pieces.size, pieces.end(piece), sums, sums + floats / 2);
      });
  const int64_t rows = block_rows<T>;
  at::parallel_for(0, groups * s.blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t group = item / s.blocks, top = item % s.blocks * rows, bottom = std::min(s.length, top + rows);
      float* sums = all + group * pieces.count * floats;
      for (int64_t piece = 1; piece < pieces.count; ++piece) {
        for (int64_t half : {int64_t{0}, floats / 2}) {
          const int64_t offset = half + top * s.head_dim;
          add_floats(sums + offset, sums + piece * floats + offset, (bottom - top) * s.head_dim);
        }
      }
      finish_keys(s, group / s.groups, group % s.groups, top, bottom, sums, sums + floats / 2, tensors.joint_gradient);
    }
  });
}

}  // namespace

template <typename T>
void attention_backward(const AttentionInput& input, const at::Tensor& context, const at::Tensor& log_sums,
                        const at::Tensor& context_gradient, const at::Tensor& joint_gradient) {
  const AttentionSizes<T> sizes(input);
  const BackwardTensors<T> tensors{context.const_data_ptr<T>(), context_gradient.const_data_ptr<T>(),
                                   log_sums.const_data_ptr<float>(), joint_gradient.mutable_data_ptr<T>()};
  const bool few = sizes.batch * sizes.groups < 2 * at::get_num_threads();
  if (few && Pieces<T>(sizes).count > 1) {
    by_pieces(sizes, tensors);
  } else {
    by_groups(sizes, tensors);
  }
}

template void attention_backward<float>(const AttentionInput&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                        const at::Tensor&);
template void attention_backward<c10::BFloat16>(const AttentionInput&, const at::Tensor&, const at::Tensor&,
                                                const at::Tensor&, const at::Tensor&);

}  // namespace terrace::ops::cpu
