// The kernels of an optimizer step: the AdamW update and sums of squares, with an implementation for each device.
#pragma once

#include <ATen/core/Tensor.h>

#include "terrace/optim/adamw_step.h"
#include "terrace/optim/exact_sum.h"

namespace terrace::optim {

// Updates master, m and v (fp32) from the gradient (fp32, bf16 or fp16). If `value` is not the master itself, the
// rounded master is written to `value`. All tensors have the same shape and device and are contiguous. Elements are
// computed independently in fp32 without fused multiply-adds, so the result does not depend on the ends of shards or
// vectors.
void adamw_step(const AdamWStep& step, const at::Tensor& gradient, at::Tensor& master, at::Tensor& m, at::Tensor& v,
                at::Tensor& value);

// The squares of gradients' elements, summed exactly from sums of pieces of `norm_piece` elements, each of which is
// added in an order that depends only on the piece's size, in fp64. The sums stay on the device of the gradients.
class Squares {
 public:
  // Adds those of a flattened gradient (fp32, bf16 or fp16), of which the first piece has `first` elements, 1 to
  // norm_piece. The last piece may be shorter.
  void add(const at::Tensor& gradient, int64_t first = norm_piece);
  // The sum of all, carried. Waits for a GPU once.
  ExactSum total() const;

 private:
  at::Tensor rows_;  // int64 [square_rows, exact_words], to be added up; undefined before the first gradient
};

// Rows of a sum that is computed by many blocks of threads, each of which adds to its own.
inline constexpr int64_t square_rows = 1024;

// The implementations for each device; in a build without CUDA, those for CUDA throw UserError.
void adamw_step_cpu(const AdamWStep&, const at::Tensor&, at::Tensor&, at::Tensor&, at::Tensor&, at::Tensor&);
void adamw_step_cuda(const AdamWStep&, const at::Tensor&, at::Tensor&, at::Tensor&, at::Tensor&, at::Tensor&);
void add_squares_cpu(const at::Tensor& gradient, int64_t first, at::Tensor& rows);
void add_squares_cuda(const at::Tensor& gradient, int64_t first, at::Tensor& rows);

}  // namespace terrace::optim
