// Shared by the forward and backward attention kernels: sizes and pointers, scratch memory, and the
// division of items among threads.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "terrace/base/error.h"
#include "terrace/ops/attention/attention_kernels.h"
#include "terrace/ops/cpu/vectors/pack.h"

namespace terrace::ops::cpu::TERRACE_VECTOR_SET {

template <typename T>
void attention(const AttentionInput& input, const at::Tensor& context, const at::Tensor& log_sums);
template <typename T>
void attention_backward(const AttentionInput& input, const at::Tensor& context, const at::Tensor& log_sums,
                        const at::Tensor& context_gradient, const at::Tensor& joint_gradient);

constexpr int64_t round_up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

// Sizes and inputs of attention. The columns of a group are its queries, its key and its value.
template <typename T>
struct AttentionSizes {
  explicit AttentionSizes(const AttentionInput& input)
      : batch(input.joint.size(0)),
        length(input.joint.size(1)),
        padded(round_up(length, lanes)),
        begins_of_sequence(round_up(length, 16)),
        groups(input.layout.groups),
        per_group(input.layout.queries_per_group),
        head_dim(input.layout.head_dim),
        width(round_up(head_dim, lanes)),
        words(width / word_elements<T>),
        depth((head_dim + word_elements<T> - 1) / word_elements<T>),
        columns(input.layout.columns()),
        blocks((length + block_rows<T> - 1) / block_rows<T>),
        causal(input.visibility == Visibility::causal),
        window(input.window),
        scale(1.0f / std::sqrt(static_cast<float>(head_dim))),
        joint(input.joint.const_data_ptr<T>()) {
    if (input.document_begins.defined()) begins = input.document_begins.const_data_ptr<int32_t>();
    if (input.positions.defined()) positions = input.positions.const_data_ptr<int64_t>();
    if (input.table.cosines.defined()) {
      rotation = {input.table.cosines.const_data_ptr<float>(), input.table.sines.const_data_ptr<float>(), nullptr};
    }
  }

  int64_t heads() const { return groups * per_group; }
  // The offset of the first column of vector `index` of a group (queries, then key, then value) in row 0 of a sequence.
  int64_t offset(int64_t b, int64_t group, int64_t index) const {
    return b * length * columns + (group * (per_group + 2) + index) * head_dim;
  }
  Rotation rotation_of(int64_t b) const {
    return {rotation.cosines, rotation.sines, positions ? positions + b * length : nullptr};
  }
  KeyMask mask_of(int64_t b) const {
    return {causal ? 0 : length, begins ? begins + b * begins_of_sequence : nullptr, window};
  }

  int64_t batch, length, padded;
  int64_t begins_of_sequence;  // numbers of document_begins
  int64_t groups, per_group, head_dim;
  int64_t width;  // elements of a head in scratch memory: zeros follow the head's own up to a multiple of `lanes`
  int64_t words;  // of `width` elements
  int64_t depth;  // words of the head's own elements, over which scores are summed
  int64_t columns, blocks;
  bool causal;
  int64_t window;
  float scale;
  const T* joint;
  const int32_t* begins = nullptr;
  const int64_t* positions = nullptr;
  Rotation rotation;
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
