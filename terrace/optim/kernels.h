// The two passes over all parameters that an optimizer step makes, one implementation a device.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace terrace::optim {

// Numbers of one AdamW step (Loshchilov and Hutter, "Decoupled weight decay regularization", ICLR 2019, algorithm 2).
struct AdamWStep {
  double learning_rate;
  double weight_decay;  // 0 for parameters that do not decay
  double beta1, beta2, epsilon;
  double gradient_multiplier;  // clipping and 1 / loss scale
  int64_t count;               // of this step, from 1, for the bias correction
};

// The same numbers in fp32, as the loops of every device use them.
struct AdamWCoefficients {
  explicit AdamWCoefficients(const AdamWStep& step);

  float multiplier, keep, one_minus_beta1, beta2, one_minus_beta2, inverse_root_correction2, epsilon, rate;
};

// Updates master (fp32), m (fp32), v (fp32) from the gradient (fp32, bf16 or fp16) and, where `value` is another tensor
// than the master, writes the rounded master to it. All of one shape, contiguous, on one device. Elements are computed
// one by one in fp32, without fused multiply-adds, so the result does not depend on where a shard or a vector ends.
void adamw_step(const AdamWStep& step, const at::Tensor& gradient, at::Tensor& master, at::Tensor& m, at::Tensor& v,
                at::Tensor& value);

// Elements in a piece of a sum of squares.
inline constexpr int64_t norm_piece = 1024;

// One double per piece of `norm_piece` elements of the flattened tensor, the last piece shorter: its sum of squares,
// added in an order that depends on the piece alone. On the CPU, fp64 [pieces].
at::Tensor squares_by_piece(const at::Tensor& gradient);

// The implementations behind them; the CUDA ones throw UserError in a build without CUDA.
void adamw_step_cpu(const AdamWStep&, const at::Tensor&, at::Tensor&, at::Tensor&, at::Tensor&, at::Tensor&);
void adamw_step_cuda(const AdamWStep&, const at::Tensor&, at::Tensor&, at::Tensor&, at::Tensor&, at::Tensor&);
at::Tensor squares_by_piece_cpu(const at::Tensor& gradient);
at::Tensor squares_by_piece_cuda(const at::Tensor& gradient);

}  // namespace terrace::optim
