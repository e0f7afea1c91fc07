// Attention backward: the division of the work among threads, and the gradients of keys and values.
#pragma once

#include "terrace/ops/cpu/vectors/backward_worker.h"

namespace terrace::ops::cpu::TERRACE_VECTOR_SET {
// Contributions to the gradients of keys and values are summed within pieces of this many rows of queries of a group,
// then over the pieces. The number is fixed so that the sums do not depend on the threads.
constexpr int64_t piece_rows = 1024;

// Writes rows [begin, end) of the gradients of a group's keys and values.
template <typename T>
TERRACE_VECTOR_CODE void finish_keys(const AttentionSizes<T>& s, int64_t b, int64_t group, int64_t begin, int64_t end,
                                     const float* key_sums, const float* value_sums, T* joint_gradient) {
  T* to = joint_gradient + s.offset(b, group, s.per_group);
  for (int64_t t = begin; t < end; ++t) {
    scatter_row(key_sums + t * s.width, s.scale, s.rotation_of(b), t, s.head_dim, to + t * s.columns);
    scatter_row(value_sums + t * s.width, 1.0f, {}, t, s.head_dim, to + t * s.columns + s.head_dim);
  }
}

TERRACE_VECTOR_CODE inline void add_floats(float* into, const float* from, int64_t n) {
  for (int64_t i = 0; i < n; i += lanes) {
    store(into + i, load(into + i) + load(from + i));
  }
}

// The division of a group's blocks of queries into pieces.
template <typename T>
struct Pieces {
  explicit Pieces(const AttentionSizes<T>& s)
      : blocks(s.per_group * s.blocks), size(piece_rows / block_rows<T>), count((blocks + size - 1) / size) {}
  int64_t end(int64_t piece) const { return std::min(blocks, (piece + 1) * size); }
  int64_t blocks, size, count;
};

// Each thread takes whole groups and computes their pieces one after another.
template <typename T>
void by_groups(const AttentionSizes<T>& s, const BackwardTensors<T>& tensors) {
  const Pieces<T> pieces(s);
  const int64_t floats = 2 * s.padded * s.width;
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

// Divides the pieces of a group among threads, for use with few groups; the sums are added afterwards in the same
// order.
template <typename T>
void by_pieces(const AttentionSizes<T>& s, const BackwardTensors<T>& tensors) {
  const Pieces<T> pieces(s);
  const int64_t floats = 2 * s.padded * s.width, groups = s.batch * s.groups;
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
          const int64_t offset = half + top * s.width;
          add_floats(sums + offset, sums + piece * floats + offset, (bottom - top) * s.width);
        }
      }
      finish_keys(s, group / s.groups, group % s.groups, top, bottom, sums, sums + floats / 2, tensors.joint_gradient);
    }
  });
}

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

}  // namespace terrace::ops::cpu::TERRACE_VECTOR_SET
