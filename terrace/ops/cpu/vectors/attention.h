// Shared by the forward and backward attention kernels: sizes and pointers, scratch memory, and the
// division of items among threads.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/ops/attention/attention_kernels.h"
#include "terrace/ops/cpu/vectors/pack.h"

namespace terrace::ops::cpu::TERRACE_VECTOR_SET {

template <typename T>
void attention(const AttentionInput& input, const at::Tensor& context, const at::Tensor& log_sums);
template <typename T>
void attention_backward(const AttentionInput& input, const at::Tensor& context, const at::Tensor& log_sums,
                        const at::Tensor& context_gradient, const at::Tensor& joint_gradient);
template <typename T>
void partial_attention(const PartialAttention& part, const RunningContext& running);
template <typename T>
void context_products(const HeadLayout& layout, const at::Tensor& context, const at::Tensor& context_gradient,
                      const at::Tensor& products);
template <typename T>
void partial_attention_backward(const PartialAttention& part, const at::Tensor& log_sums, const at::Tensor& products,
                                const at::Tensor& context_gradient, const PartialGradients& gradients);

constexpr int64_t round_up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

// Tokens as queries or as keys.
template <typename T>
struct Tokens {
  // The row of token 0 of a sequence.
  const T* sequence(int64_t b) const { return first + b * sequence_stride; }
  Rotation rotation_of(int64_t b, const Rotation& table) const {
    return {table.cosines, table.sines, positions ? positions + b * positions_stride : nullptr};
  }
  const int32_t* documents_of(int64_t b) const { return documents ? documents + b * documents_stride : nullptr; }

  int64_t length;
  const T* first;
  int64_t row, sequence_stride;        // elements from a token to the next, and from a sequence to the next
  const int64_t* positions = nullptr;  // rotary ones; null: 0 .. length - 1
  int64_t positions_stride = 0;
  const int32_t* documents = nullptr;  // null: each sequence is one document
  int64_t documents_stride = 0;
};

// Sizes and inputs of attention. The columns of a group of queries are its queries, its key and its value.
template <typename T>
struct AttentionSizes {
  explicit AttentionSizes(const AttentionInput& input)
      : AttentionSizes(input.layout, input.joint.size(0), tokens_of(input.joint), tokens_of(input.joint)) {
    keys.first += per_group * head_dim;
    key_group = columns_of_group;
    causal = aligned = input.visibility == Visibility::causal;
    window = input.window;
    set_table(input.table);
    if (input.document_begins.defined()) set_documents(input.document_begins, queries);
    if (input.positions.defined()) set_positions(input.positions, queries);
    keys.documents = queries.documents;
    keys.documents_stride = queries.documents_stride;
    keys.positions = queries.positions;
    keys.positions_stride = queries.positions_stride;
  }

  explicit AttentionSizes(const PartialAttention& part)
      : AttentionSizes(part.layout, part.queries.vectors.size(0), tokens_of(part.queries.vectors),
                       tokens_of(part.keys.vectors)) {
    whole = false;
    key_group = 2 * head_dim;
    causal = part.visibility == Visibility::causal;
    window = part.window;
    ahead = part.queries.begin - part.keys.begin;
    first_place = part.keys.begin;
    aligned = causal && ahead == 0 && queries.length == keys.length;
    set_table(part.table);
    for (auto [from, to] : {std::pair(&part.queries, &queries), std::pair(&part.keys, &keys)}) {
      if (from->documents.defined()) set_documents(from->documents, *to);
      if (from->positions.defined()) set_positions(from->positions, *to);
    }
  }

  int64_t heads() const { return groups * per_group; }
  // The offset of the first column of vector `index` of a group (queries, then key, then value) in a row of queries.
  int64_t column(int64_t group, int64_t index) const { return group * columns_of_group + index * head_dim; }
  const T* query_rows(int64_t b, int64_t group, int64_t head) const {
    return queries.sequence(b) + column(group, head);
  }
  // The rows of keys, whose values follow them.
  const T* key_rows(int64_t b, int64_t group) const { return keys.sequence(b) + group * key_group; }
  Rotation query_rotation(int64_t b) const { return queries.rotation_of(b, rotation); }
  Rotation key_rotation(int64_t b) const { return keys.rotation_of(b, rotation); }
  KeyMask mask_of(int64_t b) const {
    return {.keys = keys.length,
            .shared = causal ? 0 : keys.length,
            .ahead = causal ? ahead : -never,
            .query_documents = queries.documents_of(b),
            .key_documents = keys.documents_of(b),
            .first_place = first_place,
            .window = window};
  }

  Tokens<T> queries, keys;
  int64_t batch, groups, per_group, head_dim;
  int64_t padded;  // keys, up to a multiple of `lanes`
  int64_t width;   // elements of a head in scratch memory: zeros follow the head's own up to a multiple of `lanes`
  int64_t words;   // of `width` elements
  int64_t depth;   // words of the head's own elements, over which scores are summed
  int64_t columns_of_group, key_group;  // elements from a group's columns to the next one's
  int64_t blocks, key_blocks;           // of queries and of keys
  bool whole = true;                    // queries and keys are the same tokens, all of each sequence
  bool causal = false;
  bool aligned = false;     // causal, and query i is at the place of key i, the last query at that of the last key
  int64_t ahead = 0;        // the place of query 0 less that of key 0
  int64_t first_place = 0;  // of key 0, in the numbers of documents
  int64_t window = 0;
  float scale;
  Rotation rotation;

 private:
  AttentionSizes(const HeadLayout& layout, int64_t batch, const Tokens<T>& queries, const Tokens<T>& keys)
      : queries(queries),
        keys(keys),
        batch(batch),
        groups(layout.groups),
        per_group(layout.queries_per_group),
        head_dim(layout.head_dim),
        padded(round_up(keys.length, lanes)),
        width(round_up(head_dim, lanes)),
        words(width / word_elements<T>),
        depth((head_dim + word_elements<T> - 1) / word_elements<T>),
        columns_of_group((per_group + 2) * head_dim),
        key_group(columns_of_group),
        blocks((queries.length + block_rows<T> - 1) / block_rows<T>),
        key_blocks((keys.length + block_rows<T> - 1) / block_rows<T>),
        scale(1.0f / std::sqrt(static_cast<float>(head_dim))) {}

  static Tokens<T> tokens_of(const at::Tensor& vectors) {
    return {.length = vectors.size(1),
            .first = vectors.const_data_ptr<T>(),
            .row = vectors.stride(1),
            .sequence_stride = vectors.stride(0)};
  }
  void set_table(const RotaryTable& table) {
    if (!table.cosines.defined()) return;
    rotation = {table.cosines.const_data_ptr<float>(), table.sines.const_data_ptr<float>(), nullptr};
  }
  static void set_documents(const at::Tensor& documents, Tokens<T>& of) {
    of.documents = documents.const_data_ptr<int32_t>();
    of.documents_stride = documents.stride(0);
  }
  static void set_positions(const at::Tensor& positions, Tokens<T>& of) {
    of.positions = positions.const_data_ptr<int64_t>();
    of.positions_stride = positions.stride(0);
  }
};

// Memory of one worker, from which its buffers are taken.
class Scratch {
 public:
  explicit Scratch(int64_t floats) : memory_(at::empty({floats + lanes}, at::TensorOptions().dtype(at::kFloat))) {
    next_ = memory_.mutable_data_ptr<float>();
    end_ = next_ + memory_.numel();
  }
  float* take(int64_t floats) {
    float* piece = next_;
    next_ += round_up(floats, lanes);
    TERRACE_CHECK(next_ <= end_, "scratch of {} floats is too small", memory_.numel());
    return piece;
  }

 private:
  at::Tensor memory_;
  float *next_, *end_;
};

// Calls body(worker, item) for every item; each worker takes the next item when it has finished one. Calls
// make_worker() once per thread.
template <typename MakeWorker, typename Body>
void for_each_item(int64_t items, const MakeWorker& make_worker, const Body& body) {
  std::atomic<int64_t> next = 0;
  const int64_t workers = std::min<int64_t>(at::get_num_threads(), items);
  at::parallel_for(0, workers, 1, [&](int64_t begin, int64_t end) {
    auto worker = make_worker();
    for (int64_t turn = begin; turn < end; ++turn) {
      for (int64_t item = next++; item < items; item = next++) body(worker, item);
    }
  });
}

}  // namespace terrace::ops::cpu::TERRACE_VECTOR_SET
