// The kernels of an optimizer step: the AdamW update and sums of squares, with one implementation for each device.
#pragma once

#include <ATen/core/Tensor.h>

#include "terrace/optim/adamw_step.h"

namespace terrace::optim {

// Updates master, m and v (fp32) from the gradient (fp32, bf16 or fp16). If `value` is not the master itself, the
// rounded master is written to `value`. All tensors have the same shape and device and are contiguous. Elements are
// computed independently in fp32 without fused multiply-adds, so the result does not depend on the ends of shards or
// vectors.
void adamw_step(const AdamWStep& step, const at::Tensor& gradient, at::Tensor& master, at::Tensor& m, at::Tensor& v,
                at::Tensor& value);

// The sum of squares of each piece of `norm_piece` elements of the flattened tensor, added in an order that depends
// only on the piece's size: fp64 [pieces] on the gradient's device. The last piece may be shorter.
at::Tensor squares_by_piece(const at::Tensor& gradient);

// The implementations for each device; in a build without CUDA, those for CUDA throw UserError.
void adamw_step_cpu(const AdamWStep&, const at::Tensor&, at::Tensor&, at::Tensor&, at::Tensor&, at::Tensor&);
void adamw_step_cuda(const AdamWStep&, const at::Tensor&, at::Tensor&, at::Tensor&, at::Tensor&, at::Tensor&);
at::Tensor squares_by_piece_cpu(const at::Tensor& gradient);
at::Tensor squares_by_piece_cuda(const at::Tensor& gradient);

}  // namespace terrace::optim
