// Attention forward: blocks of queries times blocks of keys with a running softmax (Dao et al., arXiv
// 2205.14135, algorithm 1).
#pragma once

#include <limits>
#include <vector>

#include "terrace/ops/cpu/vectors/attention.h"
#include "terrace/ops/cpu/vectors/exponential.h"

namespace terrace::ops::cpu::TERRACE_VECTOR_SET {
constexpr int64_t strip_rows = 2 * tile_rows;  // queries that use a panel of keys while it is in the level-1 cache
constexpr int64_t rows_ahead = 2 * strip_rows;
// The maximum before the first key of a query: in place of -infinity, since differences of it must be numbers.
constexpr float unseen = -1e30f;

// The softmax of a row so far, in powers of two: sum of 2^(score - top).
struct RunningSum {
  float top = unseen;
  float sum = 0;
};

// The keys [begin, end) of a block that a tile reads, multiples of `lanes`; the product with the values ends at
// product_end.
struct KeyRange {
  int64_t begin, end, product_end;
};

// The largest of a row's scores.
TERRACE_VECTOR_INLINE float row_top(const float* scores, KeyRange range, int64_t query, int64_t block, KeyMask keys) {
  const int64_t whole = keys.unmasked(query) - block;
  OneVector top = broadcast(unseen);
  for (int64_t key = range.begin; key < range.end; key += lanes) {
    const LaneMask mask = key + lanes <= whole ? all_lanes() : keys.visible(query, block + key);
    top = larger_where(mask, top, load(scores + key));
  }
  return largest_of(top);
}

// Computes a row's probabilities relative to its top from the scores and returns their sum.
template <typename T>
TERRACE_VECTOR_INLINE float row_probabilities(const float* scores, float* probabilities, KeyRange range, float factor,
                                              float top, int64_t query, int64_t block, KeyMask keys) {
  const int64_t whole = keys.unmasked(query) - block;
  const OneVector factors = broadcast(factor), tops = broadcast(top);
  OneVector sum = zeros();
  for (int64_t key = range.begin; key < range.end; key += lanes) {
    const LaneMask mask = key + lanes <= whole ? all_lanes() : keys.visible(query, block + key);
    const OneVector x = times_minus(load(scores + key), factors, tops);
    const OneVector p = where(mask, power_of_two<T>(x));
    sum = sum + p;
    store_narrow(reinterpret_cast<Operand<T>*>(probabilities) + key, p);
  }
  return sum_of(sum);
}

// The results: of whole sequences the context [B, T, H, hd], else a running context to merge with.
template <typename T>
struct ForwardResults {
  T* context = nullptr;
  float* running = nullptr;
  int64_t row, sequence;  // elements from a query to the next, and from a sequence to the next
  float* log_sums;
  int64_t log_head, log_sequence;  // numbers from a head to the next, and from a sequence to the next
};

template <typename T>
class ForwardWorker {
 public:
  // `rows`: the most queries of a call of run(), a multiple of a block's.
  ForwardWorker(const AttentionSizes<T>& sizes, const ForwardResults<T>& results, int64_t rows)
      : s_(sizes),
        results_(results),
        rows_of_head_(rows),
        scratch_((block + rows) * s_.words + block * (s_.words + s_.width) +
                 rows * s_.per_group * (s_.words + s_.width) + strip_rows * (block + block_words) + 8 * lanes),
        rows_(scratch_.take(rows * s_.words)),
        key_panels_(scratch_.take(block * s_.words)),
        value_pairs_(scratch_.take(block_words * s_.width)),
        query_panels_(scratch_.take(s_.per_group * rows * s_.words)),
        sums_(scratch_.take(s_.per_group * rows * s_.width)),
        scores_(scratch_.take(strip_rows * block)),
        probabilities_(scratch_.take(strip_rows * block_words)),
        running_(s_.per_group * rows) {}

  // Computes queries [begin, end), at most `rows` from the beginning of a block, for every head of a group.
  void run(int64_t b, int64_t group, int64_t begin, int64_t end) {
    b_ = b;
    group_ = group;
    query_begin_ = begin;
    query_end_ = end;
    mask_ = s_.mask_of(b);
    const int64_t keys_end = s_.aligned ? query_end_ : mask_.limit(query_end_ - 1);
    if (!s_.whole && nothing_visible(keys_end)) return;
    running_.assign(running_.size(), RunningSum{});
    // In a part with documents it is not known in which block a query sees its first key.
    zeroed_ = !s_.whole && !s_.aligned && mask_.key_documents;
    if (zeroed_) std::fill(sums_, sums_ + s_.per_group * rows_of_head_ * s_.width, 0.0f);
    several_blocks_ = keys_end > block;
    if (several_blocks_) pack_all_queries();
    for (key_begin_ = 0; key_begin_ < keys_end; key_begin_ += block) {
      key_end_ = std::min(s_.keys.length, key_begin_ + block);
      if (zeroed_) documents_ = DocumentSpan::of(mask_.key_documents, key_begin_, key_end_);
      if (s_.aligned && key_begin_ >= query_begin_) {
        // This block is the last one of the queries at its own positions, and not yet of later ones.
        last_block(key_begin_, key_end_);
        strips(key_end_, query_end_);
      } else if (!s_.aligned && key_end_ >= keys_end) {
        pack_keys(key_begin_, key_end_);
        last_block(query_begin_, query_end_);
      } else if (!mask_.hides_early_keys() || any_visible()) {
        pack_keys(key_begin_, key_end_);
        strips(query_begin_, query_end_);
      }
    }
  }

 private:
  static constexpr int64_t block = block_rows<T>;

  // Computes the part of a block of keys in the context of queries [begin, end), which attend to later blocks too.
  TERRACE_VECTOR_CODE void strips(int64_t begin, int64_t end) {
    last_ = false;
    for (int64_t head = 0; head < s_.per_group; ++head) {
      for (int64_t query = begin; query < end; query += strip_rows) strip(head, query);
    }
  }

  // Computes the part of the last block to which the queries attend, in causal attention the one at their own
  // positions. In that block a strip attends to no later key, so the keys are packed strip by strip, which spreads the
  // accesses to memory over the computation.
  TERRACE_VECTOR_CODE void last_block(int64_t begin, int64_t end) {
    last_ = true;
    for (int64_t head = 0; head < s_.per_group; ++head) {
      for (int64_t query = begin; query < end; query += strip_rows) {
        const int64_t strip_end = std::min(end, query + strip_rows);
        if (head == 0) {
          if (s_.aligned) pack_keys(query, strip_end);
          if (!several_blocks_) pack_queries(query, strip_end);
        }
        strip(head, query);
        finish(head, query, strip_end);
      }
    }
  }

  bool nothing_visible(int64_t keys_end) const {
    int64_t first = std::max<int64_t>(0, keys_end);
    for (int64_t query = query_begin_; query < query_end_; query += tile_rows) {
      first = std::min(first, mask_.first_key(query));
    }
    return first >= keys_end;
  }

  bool any_visible() const {
    for (int64_t query = query_begin_; query < query_end_; query += tile_rows) {
      const KeyRange range = range_of(query);
      if (range.begin < range.end) return true;
    }
    return false;
  }

  TERRACE_VECTOR_CODE void pack_all_queries() { pack_queries(query_begin_, query_end_); }

  // Packs queries [begin, end) of every head of the group.
  TERRACE_VECTOR_INLINE void pack_queries(int64_t begin, int64_t end) {
    for (int64_t head = 0; head < s_.per_group; ++head) {
      gather_rows(s_.query_rows(b_, group_, head), s_.queries.row, begin, end, s_.query_rotation(b_), s_.head_dim,
                  rows_);
      rows_to_panels(rows_, round_up(end - begin, lanes), s_.words,
                     query_panels_ + (head * rows_of_head_ + begin - query_begin_) * s_.words);
    }
  }

  TERRACE_VECTOR_CODE void pack_keys(int64_t begin, int64_t end) {
    const int64_t n = round_up(end - begin, lanes), first = begin - key_begin_;
    const T* keys = s_.key_rows(b_, group_);
    gather_rows(keys, s_.keys.row, begin, end, s_.key_rotation(b_), s_.head_dim, rows_);
    rows_to_panels(rows_, n, s_.words, key_panels_ + first * s_.words);
    const T* values = keys + s_.head_dim;
    float* pairs = value_pairs_ + first * s_.words;
    if constexpr (word_elements<T> == 1) {
      gather_rows(values, s_.keys.row, begin, end, {}, s_.head_dim, pairs);
    } else {
      gather_rows(values, s_.keys.row, begin, end, {}, s_.head_dim, rows_);
      rows_to_pairs<T>(rows_, n, s_.width, pairs);
    }
  }

  KeyRange range_of(int64_t query) const {
    if (zeroed_) {
      const int64_t end = std::min(query_end_, query + tile_rows);
      if (query >= end || !documents_.meets(DocumentSpan::of(mask_.query_documents, query, end))) return {0, 0, 0};
    }
    const int64_t last = std::min(mask_.limit(query + tile_rows - 1), key_end_) - key_begin_;
    const int64_t begin = std::max<int64_t>(0, mask_.first_key(query) - key_begin_);
    return {begin, round_up(last, lanes), round_up(last, word_elements<T>)};
  }

  TERRACE_VECTOR_CODE void strip(int64_t head, int64_t query) {
    constexpr int64_t tiles = strip_rows / tile_rows;
    KeyRange ranges[tiles];
    int64_t begin = block, end = 0;
    for (int64_t tile = 0; tile < tiles; ++tile) {
      ranges[tile] = range_of(query + tile * tile_rows);
      begin = std::min(begin, ranges[tile].begin);
      end = std::max(end, ranges[tile].end);
    }
    const float* panel = query_panels_ + (head * rows_of_head_ + query - query_begin_) * s_.words;
    for (int64_t key = begin; key < end; key += 2 * lanes) {
      for (int64_t tile = 0; tile < tiles; ++tile) {
        if (key + 2 * lanes <= ranges[tile].begin || key >= ranges[tile].end) continue;
        const float *a = panel + tile * tile_rows, *b = key_panels_ + key * s_.words;
        float* c = scores_ + tile * tile_rows * block + key;
        const int64_t next = lanes * s_.words;
        if (key + lanes < ranges[tile].end) {
          score_tile<T, 2>(a, b, next, c, block, s_.depth);
        } else {
          score_tile<T, 1>(a, b, next, c, block, s_.depth);
        }
      }
    }
    for (int64_t tile = 0; tile < tiles; ++tile) {
      if (ranges[tile].begin < ranges[tile].end) attend(head, query + tile * tile_rows, tile, ranges[tile]);
    }
  }

  // Prefetches the memory that packing and finishing a later query access: one row at a time, between computations,
  // since the processor can wait for only a few lines at a time.
  TERRACE_VECTOR_INLINE void prefetch(int64_t head, int64_t query) const {
    if (query >= query_end_) return;
    if (head == 0) {
      prefetch_row<false>(s_.query_rows(b_, group_, 0) + query * s_.queries.row, (s_.per_group + 2) * s_.head_dim);
    }
    if (results_.context) {
      prefetch_row<true>(results_.context + context_offset(head, query), s_.head_dim);
    } else {
      prefetch_row<true>(results_.running + context_offset(head, query), s_.head_dim);
    }
  }

  // The softmax of a tile's scores and its product with the values.
  TERRACE_VECTOR_INLINE void attend(int64_t head, int64_t query, int64_t tile, KeyRange range) {
    const int64_t row = head * rows_of_head_ + query - query_begin_;
    const float factor = s_.scale * 1.44269504f;
    float* probabilities = probabilities_ + tile * tile_rows * block_words;
    float* sums = sums_ + row * s_.width;
    const bool first = !zeroed_ && std::max<int64_t>(0, mask_.first_key(query)) >= key_begin_;
    const float* scores = scores_ + tile * tile_rows * block;
    float tops[tile_rows];
    // The maxima of all rows come before the probabilities, so that no row waits for its own maximum.
    for (int64_t r = 0; r < tile_rows; ++r) {
      tops[r] = row_top(scores + r * block, range, query + r, key_begin_, mask_) * factor;
    }
    for (int64_t r = 0; r < tile_rows; ++r) {
      if (last_) prefetch(head, query + r + rows_ahead);
      RunningSum& running = running_[row + r];
      const float before = running.top;
      running.top = std::max(before, tops[r]);
      const float shrink = before == running.top || first ? 1.0f : std::exp2(before - running.top);
      running.sum =
          running.sum * shrink + row_probabilities<T>(scores + r * block, probabilities + r * block_words, range,
                                                      factor, running.top, query + r, key_begin_, mask_);
      if (shrink == 1.0f) continue;
      for (int64_t i = 0; i < s_.width; i += lanes) {
        float* sum = sums + r * s_.width + i;
        store(sum, load(sum) * broadcast(shrink));
      }
    }
    const int64_t begin = range.begin / word_elements<T>, end = range.product_end / word_elements<T>;
    product_columns<T, tile_rows, block_words, 1>(probabilities + begin, value_pairs_ + begin * s_.width, s_.width,
                                                  sums, s_.width, end - begin, s_.width / lanes, !first);
  }

  int64_t context_offset(int64_t head, int64_t query) const {
    return b_ * results_.sequence + query * results_.row + (group_ * s_.per_group + head) * s_.head_dim;
  }

  TERRACE_VECTOR_INLINE void finish(int64_t head, int64_t begin, int64_t end) {
    float* log_sums =
        results_.log_sums + b_ * results_.log_sequence + (group_ * s_.per_group + head) * results_.log_head;
    for (int64_t query = begin; query < end; ++query) {
      const int64_t row = head * rows_of_head_ + query - query_begin_;
      const float* sums = sums_ + row * s_.width;
      const RunningSum& running = running_[row];
      if (results_.context) {
        scatter_row(sums, 1.0f / running.sum, {}, query, s_.head_dim, results_.context + context_offset(head, query));
        log_sums[query] = running.top + std::log2(running.sum);
      } else if (running.sum != 0) {
        log_sums[query] = merge(sums, running, log_sums[query], results_.running + context_offset(head, query));
      }
    }
  }

  // Merges the sums of a row with the context of earlier keys, and returns the log sum of all.
  TERRACE_VECTOR_INLINE float merge(const float* sums, const RunningSum& running, float earlier, float* context) const {
    const float log_sum = running.top + std::log2(running.sum);
    // The difference is -infinity if there are no earlier keys, and the sum then becomes the context as it is.
    const float difference = earlier - log_sum;
    const float share = 1.0f / (1.0f + std::exp2(difference)), factor = 1.0f / running.sum;
    for (int64_t i = 0; i < s_.head_dim; i += lanes) {
      const OneVector before = load(context + i, s_.head_dim - i);
      const OneVector change = load(sums + i) * broadcast(factor) - before;
      store(context + i, before + change * broadcast(share), s_.head_dim - i);
    }
    return std::max(earlier, log_sum) + std::log2(1.0f + std::exp2(-std::abs(difference)));
  }

  const AttentionSizes<T>& s_;
  ForwardResults<T> results_;
  int64_t rows_of_head_;  // in query_panels_, sums_ and running_
  Scratch scratch_;
  float *rows_, *key_panels_, *value_pairs_, *query_panels_, *sums_, *scores_, *probabilities_;
  std::vector<RunningSum> running_;
  int64_t b_ = 0, group_ = 0, query_begin_ = 0, query_end_ = 0, key_begin_ = 0, key_end_ = 0;
  bool several_blocks_ = false;  // the queries attend to several blocks of keys
  bool last_ = false;            // this block of keys is the last of the queries that are being computed
  bool zeroed_ = false;          // the sums of a query begin with zeros, not with its first block of keys
  DocumentSpan documents_;       // of the block of keys, if its sums begin with zeros
  KeyMask mask_;
};

// The number of queries, in whole blocks, for which a block of keys is packed once: as many as fit the level-2 cache
// with their sums, but so few that each thread has four items. Results do not depend on it.
template <typename T>
int64_t rows_of_item(const AttentionSizes<T>& s) {
  constexpr int64_t floats_in_cache = 32768;  // of sums; packed queries take as much at most
  const int64_t in_cache = floats_in_cache / (s.per_group * s.width * block_rows<T>);
  const int64_t for_threads = s.batch * s.groups * s.blocks / (4 * at::get_num_threads());
  return block_rows<T> * std::max<int64_t>(1, std::min({in_cache, for_threads, s.blocks}));
}

template <typename T>
void compute_contexts(const AttentionSizes<T>& sizes, const ForwardResults<T>& results) {
  const int64_t pairs = sizes.batch * sizes.groups, rows = rows_of_item(sizes);
  const int64_t items = (sizes.queries.length + rows - 1) / rows;
  for_each_item(
      pairs * items, [&] { return ForwardWorker<T>(sizes, results, rows); },
      [&](ForwardWorker<T>& worker, int64_t item) {
        // In causal attention late queries attend to the most keys, so their items, the longest, come first.
        const int64_t begin = (items - 1 - item / pairs) * rows, end = std::min(sizes.queries.length, begin + rows);
        const int64_t pair = item % pairs;
        worker.run(pair / sizes.groups, pair % sizes.groups, begin, end);
      });
}

template <typename T>
void attention(const AttentionInput& input, const at::Tensor& context, const at::Tensor& log_sums) {
  const AttentionSizes<T> sizes(input);
  const int64_t row = sizes.heads() * sizes.head_dim, length = sizes.queries.length;
  compute_contexts(sizes, ForwardResults<T>{.context = context.mutable_data_ptr<T>(),
                                            .row = row,
                                            .sequence = length * row,
                                            .log_sums = log_sums.mutable_data_ptr<float>(),
                                            .log_head = length,
                                            .log_sequence = sizes.heads() * length});
}

template <typename T>
void partial_attention(const PartialAttention& part, const RunningContext& running) {
  compute_contexts(AttentionSizes<T>(part), ForwardResults<T>{.running = running.context.mutable_data_ptr<float>(),
                                                              .row = running.context.stride(1),
                                                              .sequence = running.context.stride(0),
                                                              .log_sums = running.log_sums.mutable_data_ptr<float>(),
                                                              .log_head = running.log_sums.stride(1),
                                                              .log_sequence = running.log_sums.stride(0)});
}

}  // namespace terrace::ops::cpu::TERRACE_VECTOR_SET
