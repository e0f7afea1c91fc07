// Attention backward: the division of the work among threads, and the gradients of keys and values.
#pragma once

#include "terrace/ops/cpu/vectors/backward_worker.h"

namespace terrace::ops::cpu::TERRACE_VECTOR_SET {
// Contributions to the gradients of keys and values are summed within pieces of this many rows of queries of a group,
// then over the pieces. The number is fixed so that the sums do not depend on the threads.
constexpr int64_t piece_rows = 1024;

// Writes rows [begin, end) of the gradients of a group's keys and values, or adds them to the sums of a part.
template <typename T>
TERRACE_VECTOR_CODE void finish_keys(const AttentionSizes<T>& s, const BackwardTensors<T>& tensors, int64_t b,
                                     int64_t group, int64_t begin, int64_t end, const float* key_sums,
                                     const float* value_sums) {
  const Rotation rotation = s.key_rotation(b);
  for (int64_t t = begin; t < end; ++t) {
    const float *keys = key_sums + t * s.width, *values = value_sums + t * s.width;
    if (tensors.joint_gradient) {
      T* to = tensors.joint_gradient + b * s.queries.sequence_stride + t * s.queries.row + s.column(group, s.per_group);
      scatter_row(keys, s.scale, rotation, t, s.head_dim, to);
      scatter_row(values, 1.0f, {}, t, s.head_dim, to + s.head_dim);
    } else {
      const RowStrides& strides = tensors.key_value_strides;
      float* to = tensors.key_value_sums + b * strides.sequence + t * strides.row + group * 2 * s.head_dim;
      add_row(keys, s.scale, rotation, t, s.head_dim, to);
      add_row(values, 1.0f, {}, t, s.head_dim, to + s.head_dim);
    }
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
    finish_keys(s, tensors, b, group, 0, s.keys.length, worker.sums, worker.sums + floats / 2);
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
  at::parallel_for(0, groups * s.key_blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t group = item / s.key_blocks, top = item % s.key_blocks * rows;
      const int64_t bottom = std::min(s.keys.length, top + rows);
      float* sums = all + group * pieces.count * floats;
      for (int64_t piece = 1; piece < pieces.count; ++piece) {
        for (int64_t half : {int64_t{0}, floats / 2}) {
          const int64_t offset = half + top * s.width;
          add_floats(sums + offset, sums + piece * floats + offset, (bottom - top) * s.width);
        }
      }
      finish_keys(s, tensors, group / s.groups, group % s.groups, top, bottom, sums, sums + floats / 2);
    }
  });
}

template <typename T>
void compute_gradients(const AttentionSizes<T>& sizes, const BackwardTensors<T>& tensors) {
  const bool few = sizes.batch * sizes.groups < 2 * at::get_num_threads();
  if (few && Pieces<T>(sizes).count > 1) {
    by_pieces(sizes, tensors);
  } else {
    by_groups(sizes, tensors);
  }
}

template <typename T>
void attention_backward(const AttentionInput& input, const at::Tensor& context, const at::Tensor& log_sums,
                        const at::Tensor& context_gradient, const at::Tensor& joint_gradient) {
  const AttentionSizes<T> sizes(input);
  const int64_t row = sizes.heads() * sizes.head_dim, length = sizes.queries.length;
  compute_gradients(sizes, BackwardTensors<T>{.context_gradient = context_gradient.const_data_ptr<T>(),
                                              .context_strides = {length * row, row},
                                              .log_sums = log_sums.const_data_ptr<float>(),
                                              .log_strides = {sizes.heads() * length, length},
                                              .context = context.const_data_ptr<T>(),
                                              .joint_gradient = joint_gradient.mutable_data_ptr<T>()});
}

template <typename T>
void partial_attention_backward(const PartialAttention& part, const at::Tensor& log_sums, const at::Tensor& products,
                                const at::Tensor& context_gradient, const PartialGradients& gradients) {
  const auto strides = [](const at::Tensor& tensor) { return std::pair(tensor.stride(0), tensor.stride(1)); };
  const auto [context_sequence, context_row] = strides(context_gradient);
  const auto [log_sequence, log_head] = strides(log_sums);
  const auto [product_sequence, product_head] = strides(products);
  const auto [query_sequence, query_row] = strides(gradients.queries);
  const auto [key_value_sequence, key_value_row] = strides(gradients.keys_values);
  compute_gradients(AttentionSizes<T>(part),
                    BackwardTensors<T>{.context_gradient = context_gradient.const_data_ptr<T>(),
                                       .context_strides = {context_sequence, context_row},
                                       .log_sums = log_sums.const_data_ptr<float>(),
                                       .log_strides = {log_sequence, log_head},
                                       .products = products.const_data_ptr<float>(),
                                       .product_strides = {product_sequence, product_head},
                                       .query_sums = gradients.queries.mutable_data_ptr<float>(),
                                       .query_strides = {query_sequence, query_row},
                                       .key_value_sums = gradients.keys_values.mutable_data_ptr<float>(),
                                       .key_value_strides = {key_value_sequence, key_value_row}});
}

// The products of the rows [begin, end) of a head, at most `lanes`, whose row 0 is at `context` and `gradient`.
template <typename T>
TERRACE_VECTOR_CODE void products_of_panel(const T* context, int64_t context_row, const T* gradient,
                                           int64_t gradient_row, int64_t begin, int64_t end, int64_t head_dim,
                                           float* products) {
  alignas(line_bytes) float rows[lanes * largest_head_dim], contexts[lanes * largest_head_dim],
      gradients[lanes * largest_head_dim];
  const int64_t words = round_up(head_dim, lanes) / word_elements<T>;
  gather_rows(context, context_row, begin, end, {}, head_dim, rows);
  rows_to_panels(rows, lanes, words, contexts);
  gather_rows(gradient, gradient_row, begin, end, {}, head_dim, rows);
  rows_to_panels(rows, lanes, words, gradients);
  store(products + begin, products_of_rows<T>(gradients, contexts, words), end - begin);
}

template <typename T>
void context_products(const HeadLayout& layout, const at::Tensor& context, const at::Tensor& context_gradient,
                      const at::Tensor& products) {
  const int64_t batch = context.size(0), length = context.size(1), heads = layout.heads();
  const T *contexts = context.const_data_ptr<T>(), *gradients = context_gradient.const_data_ptr<T>();
  float* to = products.mutable_data_ptr<float>();
  const int64_t row = context.stride(1), gradient_row = context_gradient.stride(1), panels = round_up(length, lanes);
  at::parallel_for(0, batch * heads * (panels / lanes), 16, [&](int64_t first, int64_t last) {
    for (int64_t item = first; item < last; ++item) {
      const int64_t begin = item % (panels / lanes) * lanes, of_head = item / (panels / lanes);
      const int64_t b = of_head / heads, column = of_head % heads * layout.head_dim;
      products_of_panel(contexts + b * context.stride(0) + column, row,
                        gradients + b * context_gradient.stride(0) + column, gradient_row, begin,
                        std::min(length, begin + lanes), layout.head_dim,
                        to + b * products.stride(0) + of_head % heads * products.stride(1));
    }
  });
}

}  // namespace terrace::ops::cpu::TERRACE_VECTOR_SET
