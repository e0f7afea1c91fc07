// The table of kernels for CUDA: gives the launches of gpu_kernels.h tensors and memory.
#include "terrace/ops/kernels.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/sort.h>

#include <optional>
#include <tuple>

#include "terrace/ops/cuda/array.h"
#include "terrace/ops/cuda/gpu_kernels.h"
#include "terrace/ops/cuda/torch_stream.h"

namespace terrace::ops {
namespace cuda {
namespace {

at::ScalarType computing_type(at::ScalarType type) { return type == at::kDouble ? at::kDouble : at::kFloat; }

void add(const at::Tensor& into, const at::Tensor& from) {
  TERRACE_CHECK(into.is_contiguous() && from.is_contiguous() && into.numel() == from.numel(), "{} += {} elements",
                into.numel(), from.numel());
  launch_add(array(into), array(from), into.numel(), TorchStream(into.device()).get());
}

void add_column_sums(const at::Tensor& into, const at::Tensor& from) {
  const int64_t rows = from.size(0), columns = from.size(1);
  TERRACE_CHECK(into.is_contiguous() && from.is_contiguous() && into.numel() == columns, "{} sums of {} columns",
                into.numel(), columns);
  const at::ScalarType wider = into.scalar_type() == at::kDouble ? at::kDouble : computing_type(from.scalar_type());
  const at::Tensor totals = at::empty({row_blocks(rows), columns}, from.options().dtype(wider));
  launch_add_column_sums(array(into), array(from), array(totals), rows, columns, TorchStream(into.device()).get());
}

void add_rows(const at::Tensor& into, const at::Tensor& indices, const at::Tensor& from) {
  const int64_t rows = from.size(0), columns = from.size(1);
  TERRACE_CHECK(into.is_contiguous() && from.is_contiguous() && indices.numel() == rows && into.size(1) == columns,
                "{} rows of {} columns into {}", rows, columns, into.size(1));
  // Stable, so that the rows of one index keep their order. The overload with a plain bool would take it for a
  // dimension.
  const auto [sorted, order] = at::sort(indices, /*stable=*/std::optional(true), /*dim=*/0, /*descending=*/false);
  launch_add_sorted_rows(array(into), sorted.const_data_ptr<int64_t>(), order.const_data_ptr<int64_t>(), array(from),
                         rows, columns, into.size(0), TorchStream(into.device()).get());
}

const int64_t* numbers_of(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.const_data_ptr<int64_t>() : nullptr;
}

SegmentRows segment_rows(const at::Tensor& elements, const at::Tensor& order, const at::Tensor& first,
                         const at::Tensor& results) {
  check_segments(elements, order, first, results);
  return {.elements = array(elements),
          .order = numbers_of(order),
          .first = numbers_of(first),
          .rows = results.size(0),
          .columns = results.size(1)};
}

void sum_segments(const at::Tensor& elements, const at::Tensor& order, const at::Tensor& first,
                  const at::Tensor& sums) {
  launch_sum_segments(segment_rows(elements, order, first, sums), array(sums, elements.scalar_type()),
                      TorchStream(elements.device()).get());
}

void extremes_of_segments(const at::Tensor& elements, const at::Tensor& order, const at::Tensor& first, bool largest,
                          const at::Tensor& found) {
  launch_extremes_of_segments(segment_rows(elements, order, first, found), largest, found.mutable_data_ptr<int64_t>(),
                              TorchStream(elements.device()).get());
}

ListedEdges listed_edges(const MessageLists& lists, int64_t atoms, int64_t planes, int64_t columns) {
  return {.first = numbers_of(lists.first),
          .order = numbers_of(lists.order),
          .others = numbers_of(lists.others),
          .pairs = numbers_of(lists.pairs),
          .opposite = lists.opposite.defined() ? lists.opposite.const_data_ptr<uint8_t>() : nullptr,
          .sign = lists.sign,
          .atoms = atoms,
          .planes = planes,
          .columns = columns};
}

EndsOfPairs ends_of_pairs(const PairEnds& ends, int64_t pairs, int64_t planes, int64_t columns) {
  return {.receivers = numbers_of(ends.receivers),
          .senders = numbers_of(ends.senders),
          .first_edges = numbers_of(ends.first_edges),
          .mutual = ends.mutual,
          .pairs = pairs,
          .planes = planes,
          .columns = columns};
}

void message_sum(const at::Tensor& x, const at::Tensor& w, const MessageLists& lists, const at::Tensor& sums) {
  launch_message_sum(listed_edges(lists, x.size(0), x.size(1), x.size(2)), array(x), array(w, x.scalar_type()),
                     array(sums, x.scalar_type()), TorchStream(x.device()).get());
}

void directed_sum(const at::Tensor& x, const at::Tensor& w, const at::Tensor& u, const MessageLists& lists,
                  const at::Tensor& sums) {
  launch_directed_sum(listed_edges(lists, x.size(0), 1, x.size(1)), array(x), array(w, x.scalar_type()),
                      array(u, x.scalar_type()), array(sums, x.scalar_type()), TorchStream(x.device()).get());
}

void directed_dot(const at::Tensor& v, const at::Tensor& w, const at::Tensor& u, const MessageLists& lists,
                  const at::Tensor& sums) {
  launch_directed_dot(listed_edges(lists, v.size(0), 1, v.size(2)), array(v), array(w, v.scalar_type()),
                      array(u, v.scalar_type()), array(sums, v.scalar_type()), TorchStream(v.device()).get());
}

void message_product(const at::Tensor& a, const at::Tensor& b, const PairEnds& ends, const at::Tensor& products) {
  launch_message_product(ends_of_pairs(ends, products.size(0), a.size(1), a.size(2)), array(a),
                         array(b, a.scalar_type()), array(products, a.scalar_type()), TorchStream(a.device()).get());
}

void directed_product(const at::Tensor& v, const at::Tensor& x, const at::Tensor& u, const PairEnds& ends,
                      const at::Tensor& products) {
  launch_directed_product(ends_of_pairs(ends, products.size(0), 1, v.size(2)), array(v), array(x, v.scalar_type()),
                          array(u, v.scalar_type()), array(products, v.scalar_type()), TorchStream(v.device()).get());
}

void direction_product(const at::Tensor& v, const at::Tensor& x, const at::Tensor& w, const PairEnds& ends,
                       const at::Tensor& products) {
  launch_direction_product(ends_of_pairs(ends, products.size(0), 1, v.size(2)), array(v), array(x, v.scalar_type()),
                           array(w, v.scalar_type()), array(products, v.scalar_type()), TorchStream(v.device()).get());
}

void norm(const NormShape& shape, const NormForward& t) {
  TERRACE_CHECK(shape.centered == t.mean.defined(), "a norm is centered where it has means");
  const at::Tensor& x = t.x;
  const at::ScalarType type = x.scalar_type(), computing = computing_type(type);
  launch_norm({.x = array(x),
               .added = array(t.added, type),
               .weight = array(t.weight, type),
               .bias = array(t.bias, type),
               .sum = array(t.sum, type),
               .y = array(t.y, type),
               .means = array(t.mean, computing),
               .inverses = array(t.inverse, computing),
               .weight_offset = shape.weight_offset,
               .rows = x.size(0),
               .columns = x.size(1)},
              shape.epsilon, TorchStream(x.device()).get());
}

void norm_backward(const NormShape& shape, const NormBackward& t) {
  TERRACE_CHECK(shape.centered == t.mean.defined(), "a norm is centered where it has means");
  const int64_t rows = t.x.size(0), columns = t.x.size(1);
  const at::ScalarType type = t.x.scalar_type(), computing = computing_type(type);
  const auto partial = [&](const at::Tensor& sums) {
    return sums.defined() ? at::empty({row_blocks(rows), columns}, sums.options()) : at::Tensor();
  };
  const at::Tensor weight_partial = partial(t.weight_sums), bias_partial = partial(t.bias_sums);
  launch_norm_backward({.dy = array(t.dy, type),
                        .d_sum = array(t.d_sum, type),
                        .x = array(t.x),
                        .weight = array(t.weight, type),
                        .means = array(t.mean, computing),
                        .inverses = array(t.inverse, computing),
                        .dx = array(t.dx, type),
                        .weight_sums = array(weight_partial, computing),
                        .bias_sums = array(bias_partial, computing),
                        .weight_offset = shape.weight_offset,
                        .rows = rows,
                        .columns = columns},
                       TorchStream(t.x.device()).get());
  if (t.weight_sums.defined()) add_column_sums(t.weight_sums, weight_partial);
  if (t.bias_sums.defined()) add_column_sums(t.bias_sums, bias_partial);
}

void swiglu(const at::Tensor& x, const at::Tensor& y) {
  launch_swiglu(array(x), array(y, x.scalar_type()), y.numel(), TorchStream(x.device()).get());
}

void swiglu_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& dx) {
  launch_swiglu_backward(array(dy, x.scalar_type()), array(x), array(dx, x.scalar_type()), dy.numel(),
                         TorchStream(x.device()).get());
}

void softplus(const at::Tensor& x, double shift, const at::Tensor& y) {
  const at::Tensor wide = x.to(computing_type(x.scalar_type()));
  y.copy_(at::softplus(wide).sub_(shift));
}

HeadStrides head_strides(const at::Tensor& tensor) {
  return {tensor.stride(0), tensor.stride(1), tensor.stride(2), tensor.stride(3)};
}

void rotate(const at::Tensor& in, const at::Tensor& out, const at::Tensor& cosines, const at::Tensor& sines,
            const at::Tensor& positions, int direction) {
  TERRACE_CHECK(in.dim() == 5 && in.sizes() == out.sizes() && in.stride(4) == 1 && out.stride(4) == 1,
                "rotation of a tensor with {} dimensions", in.dim());
  const at::Tensor at_positions = positions.defined() ? positions.contiguous() : positions;
  const Rotation rotation = {.cosines = cosines.const_data_ptr<float>(),
                             .sines = sines.const_data_ptr<float>(),
                             .positions = positions.defined() ? at_positions.const_data_ptr<int64_t>() : nullptr,
                             .table_positions = cosines.size(0),
                             .length = in.size(1),
                             .groups = static_cast<unsigned>(in.size(2)),
                             .heads = static_cast<unsigned>(in.size(3)),
                             .half = static_cast<unsigned>(in.size(4) / 2),
                             .direction = direction};
  launch_rotate(rotation, in.size(0), array(in), head_strides(in), array(out, in.scalar_type()), head_strides(out),
                TorchStream(in.device()).get());
}

void copy_heads(const at::Tensor& in, const at::Tensor& out) {
  TERRACE_CHECK(in.dim() == 5 && in.sizes() == out.sizes() && in.stride(4) == 1 && out.stride(4) == 1,
                "a copy of heads with {} dimensions", in.dim());
  launch_copy_heads({.length = in.size(1), .groups = in.size(2), .heads = in.size(3), .columns = in.size(4)},
                    in.size(0), array(in), head_strides(in), array(out, in.scalar_type()), head_strides(out),
                    TorchStream(in.device()).get());
}

void dropout(const DropoutDraw& draw, const at::Tensor& x, const at::Tensor& residual, const at::Tensor& out) {
  TERRACE_CHECK(x.dim() == 4 && draw.samples.numel() == x.size(0), "{} sample numbers for dropout",
                draw.samples.numel());
  TERRACE_CHECK(
      x.stride(3) == 1 && out.strides() == x.strides() && (!residual.defined() || residual.strides() == x.strides()),
      "tensors of dropout with other strides");
  const at::Tensor samples = draw.samples.contiguous();
  const DropoutRows rows = {.key = draw.key,
                            .threshold = draw.threshold,
                            .samples = samples.const_data_ptr<int64_t>(),
                            .planes = x.size(1),
                            .length = x.size(2),
                            .columns = x.size(3),
                            .sample_stride = x.stride(0),
                            .plane_stride = x.stride(1),
                            .position_stride = x.stride(2),
                            .first_plane = draw.first_plane,
                            .positions = draw.positions};
  launch_dropout(rows, x.size(0) * x.size(1) * x.size(2), array(x), array(residual, x.scalar_type()),
                 array(out, x.scalar_type()), TorchStream(x.device()).get());
}

void cross_entropy(const at::Tensor& logits, const at::Tensor& targets, int64_t vocabulary, double gradient_scale,
                   const at::Tensor& losses) {
  TERRACE_CHECK(logits.is_contiguous() && targets.is_contiguous() && vocabulary <= logits.size(1), "{} columns of {}",
                vocabulary, logits.size(1));
  launch_cross_entropy({.logits = array(logits),
                        .targets = targets.const_data_ptr<int64_t>(),
                        .losses = losses.mutable_data_ptr<double>(),
                        .rows = logits.size(0),
                        .vocabulary = vocabulary,
                        .columns = logits.size(1)},
                       gradient_scale, TorchStream(logits.device()).get());
}

void encode_blocks(const BlockCoding& coding, const at::Tensor& values, const at::Tensor& payloads) {
  const BlockLayout layout = block_layout(coding, values, payloads);
  launch_encode_blocks(layout, coding.draw ? &*coding.draw : nullptr, array(values),
                       payloads.mutable_data_ptr<uint8_t>(), TorchStream(values.device()).get());
}

void decode_blocks(const BlockCoding& coding, const at::Tensor& payloads, const at::Tensor& into) {
  const BlockLayout layout = block_layout(coding, into, payloads);
  launch_decode_blocks(layout, coding.adds, payloads.const_data_ptr<uint8_t>(), array(into),
                       TorchStream(into.device()).get());
}

}  // namespace
}  // namespace cuda

const Kernels& cuda_kernels() {
  static constexpr Kernels table = {.add = cuda::add,
                                    .add_column_sums = cuda::add_column_sums,
                                    .add_rows = cuda::add_rows,
                                    .sum_segments = cuda::sum_segments,
                                    .extremes_of_segments = cuda::extremes_of_segments,
                                    .message_sum = cuda::message_sum,
                                    .message_product = cuda::message_product,
                                    .directed_sum = cuda::directed_sum,
                                    .directed_dot = cuda::directed_dot,
                                    .directed_product = cuda::directed_product,
                                    .direction_product = cuda::direction_product,
                                    .norm = cuda::norm,
                                    .norm_backward = cuda::norm_backward,
                                    .swiglu = cuda::swiglu,
                                    .swiglu_backward = cuda::swiglu_backward,
                                    .softplus = cuda::softplus,
                                    .rotate = cuda::rotate,
                                    .copy_heads = cuda::copy_heads,
                                    .dropout = cuda::dropout,
                                    .cross_entropy = cuda::cross_entropy,
                                    .encode_blocks = cuda::encode_blocks,
                                    .decode_blocks = cuda::decode_blocks};
  return table;
}

}  // namespace terrace::ops
