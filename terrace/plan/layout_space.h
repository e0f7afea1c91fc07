// All legal layouts of a configuration on a number of devices.
#pragma once

#include <cstdint>
#include <vector>

#include "terrace/config/config.h"

namespace terrace::plan {

// The configurations that differ in the keys that best_layouts() varies, hold every rule between keys and are divisible
// among the ranks. Tensor parallelism stays within `most_tensor` ranks.
std::vector<config::Config> legal_layouts(const config::Config& config, int64_t devices, int64_t ranks_per_node,
                                          int64_t most_tensor);

}  // namespace terrace::plan
