// The numbers that the kernels of an optimizer step compute with; compilers for GPUs read this file, so it includes
// nothing of torch.
#pragma once

#include <cstdint>

namespace terrace::optim {

// The hyperparameters of one AdamW step (Loshchilov and Hutter, "Decoupled weight decay regularization", ICLR 2019,
// algorithm 2).
struct AdamWStep {
  double learning_rate;
  double weight_decay;  // 0 for parameters that do not decay
  double beta1, beta2, epsilon;
  double gradient_multiplier;  // clipping and 1 / loss scale
  int64_t count;               // of this step, from 1, for the bias correction
};

// The coefficients in fp32 that the loops of every device use.
struct AdamWCoefficients {
  explicit AdamWCoefficients(const AdamWStep& step);

  float multiplier, keep, one_minus_beta1, beta2, one_minus_beta2, inverse_root_correction2, epsilon, rate;
};

// Elements in a piece of a sum of squares.
inline constexpr int64_t norm_piece = 1024;

}  // namespace terrace::optim
