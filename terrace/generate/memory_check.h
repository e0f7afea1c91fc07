// Refuses a request that needs more memory than is free, before the weights are read.
#pragma once

#include <cstdint>
#include <string>

#include "terrace/generate/generate.h"

namespace terrace::generate {

// Memory that a request may take on one machine, in bytes; 0: unknown.
struct FreeMemory {
  double machine = 0;
  double gpu = 0;  // where the model computes on a GPU: for its keys and values
  bool on_gpu = false;
  int64_t ranks_here = 1;  // that share the machine's memory
  int64_t ranks = 1;       // among which the model is divided
};

// Names the option that makes the request larger than the memory that is free beside the weights, with the memory that
// the request takes and the option's largest value that fits; "" if the request fits. A continuation counts with the
// most tokens that it can have. `model` is the whole one of the configuration and need not have weights.
std::string memory_problem(const config::Config& config, models::Model& model, const Request& request,
                           const FreeMemory& free);

}  // namespace terrace::generate
