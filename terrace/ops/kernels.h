// The kernels that torch lacks or that we need faster, as one table for each kind of device. Unless stated otherwise,
// tensors are contiguous and have the same type. Arithmetic is in fp32 (double for double). No result depends on the
// number of threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "terrace/base/context_places.h"
#include "terrace/base/random.h"
#include "terrace/ops/block_code.h"

namespace terrace::ops {

struct NormShape {
  bool centered = true;  // layer norm; false: RMS norm, where `mean` stays undefined
  double epsilon = 1e-5;
  double weight_offset = 0.0;  // added to each weight in the type of the statistics, as the 1 of Gemma's norms
};

// y = norm(x), or norm(sum) with sum = x + added if `added` is defined; `sum` is then written too. x, added, sum and y
// are [N, D], weight and bias [D] (bias may be undefined), mean and inverse [N] in fp32 (double for double).
struct NormForward {
  at::Tensor x, added, weight, bias;
  at::Tensor sum = {}, y = {}, mean = {}, inverse = {};
};

// Writes dx and adds d_sum [N, D] to it if that is defined. Adds to weight_sums and bias_sums [D], which have the type
// of `inverse`, if they are defined. x is the input of the norm (NormForward::sum if that was computed).
struct NormBackward {
  at::Tensor dy, d_sum, x, weight, mean, inverse;
  at::Tensor dx = {}, weight_sums = {}, bias_sums = {};
};

// Draws the elements to drop. A draw is a function of (key, sample, plane, position, feature): see docs/numerics.md.
struct DropoutDraw {
  PhiloxKey key;             // of seed, site and step
  at::Tensor samples;        // [B] int64
  uint32_t threshold;        // 65536 * rate; an element is dropped if its 16-bit draw is below
  int64_t first_plane = 0;   // of the tensor, if it has only some planes
  RowPlaces positions = {};  // of its rows, if it has only some positions
};

// The code by which blocks are quantized (block_code.h); without `draw` values are rounded to nearest.
struct BlockCoding {
  BlockCode code;
  int64_t parts = 1;
  std::optional<RoundingDraw> draw = {};
  bool adds = false;  // decoding adds to what is there, which is fp32
};

// The edges at which sums of messages over the atoms' edges run (ops/graphs/messages.h): those of atom n have the
// places first[n] to first[n + 1] - 1 in `order`, which is undefined where it is 0 .. E-1. The other tensors are by
// edge: the atom at its other end, its pair (undefined: the edge itself), and 1 where it is the second edge of the pair
// (undefined: nowhere). All are int64 but for `opposite`, which is uint8.
struct MessageLists {
  at::Tensor first, order, others, pairs, opposite;
  double sign = 1;  // of directed messages
};

// The receiver and the sender of each edge [E] and the first edge of each pair [P] (undefined: all edges). Where edges
// are mutual, a pair has a second edge with both exchanged.
struct PairEnds {
  at::Tensor receivers, senders, first_edges;
  bool mutual = false;
};

struct Kernels {
  // into += from; the types may differ.
  void (*add)(const at::Tensor& into, const at::Tensor& from);
  // into [D] += sum over rows of from [N, D]; the types may differ.
  void (*add_column_sums)(const at::Tensor& into, const at::Tensor& from);
  // into[indices[n]] += from[n] for into [V, D], indices [N] int64, from [N, D]; the types may differ.
  void (*add_rows)(const at::Tensor& into, const at::Tensor& indices, const at::Tensor& from);

  // sums [N, D] of elements [E, D] over segments (ops/graphs/segments.h): those of row n have the places first[n] to
  // first[n + 1] - 1 in `order`, which is undefined where it is 0 .. E-1. They are added in this order. In `order` an
  // element may come several times, or never.
  void (*sum_segments)(const at::Tensor& elements, const at::Tensor& order, const at::Tensor& first,
                       const at::Tensor& sums);
  // Finds in each column the number of the first element that is the largest, or the smallest, of its row: found [N, D]
  // int64, -1 for a row without elements. A NaN counts as the extreme.
  void (*extremes_of_segments)(const at::Tensor& elements, const at::Tensor& order, const at::Tensor& first,
                               bool largest, const at::Tensor& found);

  // The functions of ops/graphs/messages.h: x, v, a and b are [N, R, D], with R = 3 for v; w [P, D], u [P, 3].
  void (*message_sum)(const at::Tensor& x, const at::Tensor& w, const MessageLists& lists, const at::Tensor& sums);
  void (*message_product)(const at::Tensor& a, const at::Tensor& b, const PairEnds& ends, const at::Tensor& products);
  void (*directed_sum)(const at::Tensor& x, const at::Tensor& w, const at::Tensor& u, const MessageLists& lists,
                       const at::Tensor& sums);
  void (*directed_dot)(const at::Tensor& v, const at::Tensor& w, const at::Tensor& u, const MessageLists& lists,
                       const at::Tensor& sums);
  void (*directed_product)(const at::Tensor& v, const at::Tensor& x, const at::Tensor& u, const PairEnds& ends,
                           const at::Tensor& products);
  void (*direction_product)(const at::Tensor& v, const at::Tensor& x, const at::Tensor& w, const PairEnds& ends,
                            const at::Tensor& products);

  void (*norm)(const NormShape& shape, const NormForward& t);
  void (*norm_backward)(const NormShape& shape, const NormBackward& t);

  // x [N, 2F] holds pairs (gate, up); y [N, F] = silu(gate) * up.
  void (*swiglu)(const at::Tensor& x, const at::Tensor& y);
  void (*swiglu_backward)(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& dx);

  // y = log(1 + e^x) - shift.
  void (*softplus)(const at::Tensor& x, double shift, const at::Tensor& y);

  // Rotates the pairs (i, i + hd/2) of `in` by the angles of each position and writes `out`; both [B, T, G, R, hd] with
  // any strides but 1 in the last dimension. cosines, sines: [positions, hd/2] fp32. positions: [B, T] int64, undefined
  // for 0 .. T-1. direction -1 rotates back, which is the adjoint.
  void (*rotate)(const at::Tensor& in, const at::Tensor& out, const at::Tensor& cosines, const at::Tensor& sines,
                 const at::Tensor& positions, int direction);

  // out = in; both as for rotate.
  void (*copy_heads)(const at::Tensor& in, const at::Tensor& out);

  // Writes to `out` the sum of residual and x / (1 - rate) where x is kept, and residual where x is dropped. All
  // tensors are [B, planes, T, D] with the same strides, the last of which is 1; residual may be undefined, and out may
  // be x.
  void (*dropout)(const DropoutDraw& draw, const at::Tensor& x, const at::Tensor& residual, const at::Tensor& out);

  // Writes to losses [N] (double) the cross-entropy of each row of logits [N, V] over the first `vocabulary` columns,
  // for targets [N] int64 (-1: not counted, loss and gradient are 0). If `gradient_scale` is not 0, the logits are
  // overwritten with d loss / d logits * gradient_scale, and with 0 in the other columns.
  void (*cross_entropy)(const at::Tensor& logits, const at::Tensor& targets, int64_t vocabulary, double gradient_scale,
                        const at::Tensor& losses);

  // Encodes `parts` equal parts of `values` [n] in fp32 to `payloads` (uint8), one payload after another; and decodes
  // payloads to `into` [n]. The types of the values are free.
  void (*encode_blocks)(const BlockCoding& coding, const at::Tensor& values, const at::Tensor& payloads);
  void (*decode_blocks)(const BlockCoding& coding, const at::Tensor& payloads, const at::Tensor& into);
};

// The layout of n values, after checks of the sizes of both tensors and of the range of the draws.
BlockLayout block_layout(const BlockCoding& coding, const at::Tensor& values, const at::Tensor& payloads);

// Aborts where sum_segments() or extremes_of_segments() cannot be computed of tensors of these sizes.
void check_segments(const at::Tensor& elements, const at::Tensor& order, const at::Tensor& first,
                    const at::Tensor& results);

// The table for a device. Throws UserError if this build has no kernels for the device.
const Kernels& kernels(const at::Device& device);

// One function for each backend; in a build without CUDA, cuda_kernels() throws (no_cuda_kernels.cpp).
const Kernels& cpu_kernels();
const Kernels& cuda_kernels();

}  // namespace terrace::ops
