// How a rank computes a micro-batch: what decides the activations that it keeps.
#pragma once

#include <cstdint>

#include "terrace/config/config.h"

namespace terrace::models {

struct ActivationOptions {
  int64_t sequences = 1;      // of the micro-batch
  int64_t element_bytes = 4;  // of the model's type
  config::Recompute recompute = config::Recompute::none;
  int64_t tensor_ranks = 1;
  bool sequence_parallel = false;
};

}  // namespace terrace::models
