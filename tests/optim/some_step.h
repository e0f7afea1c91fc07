// The hyperparameters of a step with decay, clipping and bias correction.
#pragma once

#include "terrace/optim/kernels.h"

namespace terrace::optim {

inline AdamWStep some_step() {
  return {.learning_rate = 1e-2,
          .weight_decay = 0.1,
          .beta1 = 0.9,
          .beta2 = 0.95,
          .epsilon = 1e-8,
          .gradient_multiplier = 0.7,
          .count = 3};
}

}  // namespace terrace::optim
