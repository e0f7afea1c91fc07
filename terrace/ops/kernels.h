// The kernels that torch does not have or that we need faster, as one table for each kind of device. Tensors are
// contiguous and of one type unless said otherwise; arithmetic is in fp32 (double for double). No sum depends on the
// number of threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "terrace/base/random.h"

namespace terrace::ops {

struct NormShape {
  bool centered = true;  // layer norm; false: RMS norm, where `mean` stays undefined
  double epsilon = 1e-5;
};

// y = the norm of x, or where `added` is defined of sum = x + added, which is written too. x, added, sum and y are
// [N, D], weight and bias [D] (bias may be undefined), mean and inverse [N] in fp32 (double for double).
struct NormForward {
  at::Tensor x, added, weight, bias;
  at::Tensor sum = {}, y = {}, mean = {}, inverse = {};
};

// Writes dx, with d_sum [N, D] added where it is defined; adds to weight_sums and bias_sums [D], which have the type of
// `inverse`, where they are defined. x is what was normed.
struct NormBackward {
  at::Tensor dy, d_sum, x, weight, mean, inverse;
  at::Tensor dx = {}, weight_sums = {}, bias_sums = {};
};

// Which elements to drop. A draw is a function of (key, sample, plane, position, feature): see docs/numerics.md.
struct DropoutDraw {
  PhiloxKey key;                                // of seed, site and step
  at::Tensor samples;                           // [B] int64
  uint32_t threshold;                           // an element is dropped where its 16-bit draw is below; 65536 * rate
  int64_t first_plane = 0, first_position = 0;  // of the tensor, where it is a part of the planes and positions
};

struct Kernels {
  // into += from; the types may differ.
  void (*add)(const at::Tensor& into, const at::Tensor& from);
  // into [D] += sum over rows of from [N, D]; the types may differ.
  void (*add_column_sums)(const at::Tensor& into, const at::Tensor& from);
  // into[indices[n]] += from[n] for into [V, D], indices [N] int64, from [N, D]; the types may differ.
  void (*add_rows)(const at::Tensor& into, const at::Tensor& indices, const at::Tensor& from);

  void (*norm)(const NormShape& shape, const NormForward& t);
  void (*norm_backward)(const NormShape& shape, const NormBackward& t);

  // x [N, 2F] holds pairs (gate, up); y [N, F] = silu(gate) * up.
  void (*swiglu)(const at::Tensor& x, const at::Tensor& y);
  void (*swiglu_backward)(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& dx);

  // Rotates the pairs (i, i + hd/2) of `in` by the angles of each position and writes `out`; both [B, T, G, R, hd] with
  // any strides but 1 in the last dimension. cosines, sines: [positions, hd/2] fp32. positions: [B, T] int64, undefined
  // for 0 .. T-1. direction -1 rotates back, which is the adjoint.
  void (*rotate)(const at::Tensor& in, const at::Tensor& out, const at::Tensor& cosines, const at::Tensor& sines,
                 const at::Tensor& positions, int direction);

  // out = residual + x / (1 - rate) where x is kept, residual elsewhere; x [B, planes, T, D]; residual may be
  // undefined.
  void (*dropout)(const DropoutDraw& draw, const at::Tensor& x, const at::Tensor& residual, const at::Tensor& out);

  // Cross-entropy of each row of logits [N, V] against targets [N] int64 (-1: not counted, loss and gradient 0) over
  // the first `vocabulary` columns into losses [N] (double). Where `gradient_scale` is not 0 the logits are overwritten
  // with d loss / d logits * gradient_scale, 0 in the other columns.
  void (*cross_entropy)(const at::Tensor& logits, const at::Tensor& targets, int64_t vocabulary, double gradient_scale,
                        const at::Tensor& losses);
};

// The table for a device. Throws UserError for a device this build has no kernels for.
const Kernels& kernels(const at::Device& device);

// One function for each backend; a build without the backend has a file that throws.
const Kernels& cpu_kernels();
const Kernels& cuda_kernels();

}  // namespace terrace::ops
