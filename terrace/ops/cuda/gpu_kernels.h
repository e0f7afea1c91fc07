// The launches of the kernels for GPUs, with plain pointers and sizes: compilers for GPUs need to read nothing of
// torch. terrace/ops/kernels.h says what the kernels compute and kernels.cpp gives them tensors. All arrays are in the
// memory of the GPU; nothing waits for the GPU. `stream` is a stream of the GPU's maker.
#pragma once

#include <cstdint>

#include "terrace/base/context_places.h"
#include "terrace/base/gpu/gpu_array.h"
#include "terrace/base/random.h"
#include "terrace/ops/block_code.h"

namespace terrace::ops::cuda {

// into[n] += from[n].
void launch_add(GpuArray into, GpuArray from, int64_t n, void* stream);

// The rows whose sums are added first, so that sums over rows have one order on all devices.
inline constexpr int64_t block_rows = 32;
inline int64_t row_blocks(int64_t rows) { return (rows + block_rows - 1) / block_rows; }

// into [columns] += sums over rows of from [rows, columns]. totals [row_blocks(rows), columns]: memory of the wider
// computing type of the two, for sums.
void launch_add_column_sums(GpuArray into, GpuArray from, GpuArray totals, int64_t rows, int64_t columns, void* stream);

// into[sorted[i]] += from[order[i]] for i = 0 .. rows - 1 in this order; `sorted` is ascending and below table_rows.
void launch_add_sorted_rows(GpuArray into, const int64_t* sorted, const int64_t* order, GpuArray from, int64_t rows,
                            int64_t columns, int64_t table_rows, void* stream);

// sums [rows, columns] of elements [.., columns] of the same type, and the numbers of extremes: `order` may be null.
struct SegmentRows {
  GpuArray elements;
  const int64_t* order;
  const int64_t* first;  // [rows + 1]
  int64_t rows, columns;
};
void launch_sum_segments(const SegmentRows& segments, GpuArray sums, void* stream);
void launch_extremes_of_segments(const SegmentRows& segments, bool largest, int64_t* found, void* stream);

// MessageLists and PairEnds (ops/kernels.h) as plain pointers, null where a tensor is undefined. All arrays of numbers
// of a launch have one type. x, a and b have `planes` x `columns` numbers for each of `atoms`.
struct ListedEdges {
  const int64_t *first, *order, *others, *pairs;
  const uint8_t* opposite;
  double sign;
  int64_t atoms, planes, columns;
};
struct EndsOfPairs {
  const int64_t *receivers, *senders, *first_edges;
  bool mutual;
  int64_t pairs, planes, columns;
};
void launch_message_sum(const ListedEdges& edges, GpuArray x, GpuArray w, GpuArray sums, void* stream);
void launch_directed_sum(const ListedEdges& edges, GpuArray x, GpuArray w, GpuArray u, GpuArray sums, void* stream);
void launch_directed_dot(const ListedEdges& edges, GpuArray v, GpuArray w, GpuArray u, GpuArray sums, void* stream);
void launch_message_product(const EndsOfPairs& ends, GpuArray a, GpuArray b, GpuArray products, void* stream);
void launch_directed_product(const EndsOfPairs& ends, GpuArray v, GpuArray x, GpuArray u, GpuArray products,
                             void* stream);
void launch_direction_product(const EndsOfPairs& ends, GpuArray v, GpuArray x, GpuArray w, GpuArray products,
                              void* stream);

// y [rows, columns] of x and weight + weight_offset; bias may be null. If `added` is not, y is that of x + added, which
// `sum` gets. means (null for an RMS norm) and inverses [rows] have the computing type.
struct NormRows {
  GpuArray x, added, weight, bias, sum, y, means, inverses;
  double weight_offset;
  int64_t rows, columns;
};
void launch_norm(const NormRows& norm, double epsilon, void* stream);

// dx [rows, columns] of dy, x, weight + weight_offset, means and inverses, and d_sum added to it, which may be null.
// weight_sums and bias_sums [row_blocks(rows), columns], of the computing type, may be null.
struct NormBackwardRows {
  GpuArray dy, d_sum, x, weight, means, inverses, dx, weight_sums, bias_sums;
  double weight_offset;
  int64_t rows, columns;
};
void launch_norm_backward(const NormBackwardRows& norm, void* stream);

// y [n] of x [n, 2].
void launch_swiglu(GpuArray x, GpuArray y, int64_t n, void* stream);
void launch_swiglu_backward(GpuArray dy, GpuArray x, GpuArray dx, int64_t n, void* stream);

// The strides, in elements, of a tensor [samples, tokens, groups, heads, elements of a head].
struct HeadStrides {
  int64_t sample, token, group, head;
};

struct Rotation {
  const float* cosines;      // [table_positions, half]
  const float* sines;        // [table_positions, half]
  const int64_t* positions;  // [samples, length]; null: 0 .. length - 1
  int64_t table_positions;
  int64_t length;
  unsigned groups, heads, half;
  int direction;  // 1 or -1
};
void launch_rotate(const Rotation& rotation, int64_t samples, GpuArray in, HeadStrides from, GpuArray out,
                   HeadStrides to, void* stream);

struct HeadSizes {
  int64_t length, groups, heads, columns;
};
void launch_copy_heads(const HeadSizes& sizes, int64_t samples, GpuArray in, HeadStrides from, GpuArray out,
                       HeadStrides to, void* stream);

// The rows of a tensor [samples, planes, length, columns], and what their draws depend on.
struct DropoutRows {
  PhiloxKey key;
  uint32_t threshold;
  const int64_t* samples;
  int64_t planes, length, columns;
  int64_t sample_stride, plane_stride, position_stride;
  int64_t first_plane;
  RowPlaces positions;
};
void launch_dropout(const DropoutRows& rows, int64_t num_rows, GpuArray x, GpuArray residual, GpuArray out,
                    void* stream);

// losses [rows] of logits [rows, columns].
struct CrossEntropyRows {
  GpuArray logits;
  const int64_t* targets;
  double* losses;
  int64_t rows, vocabulary, columns;
};
void launch_cross_entropy(const CrossEntropyRows& rows, double gradient_scale, void* stream);

// Encoding without a draw (null) rounds to nearest. `adds`: into, which is fp32, gets the sum with what it holds.
void launch_encode_blocks(const BlockLayout& layout, const RoundingDraw* draw, GpuArray values, uint8_t* payloads,
                          void* stream);
void launch_decode_blocks(const BlockLayout& layout, bool adds, const uint8_t* payloads, GpuArray into, void* stream);

}  // namespace terrace::ops::cuda
