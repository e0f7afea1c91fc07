// All legal layouts of a configuration on a number of devices.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "terrace/config/config.h"

namespace terrace::plan {

// The wishes of a user for a layout, beside that it is legal.
struct LayoutLimits {
  std::set<std::string> kept = {};                         // full names of keys that keep the given values
  std::function<bool(const config::Config&)> allows = {};  // null: every layout
  std::string text = {};                                   // what `allows` asks for, for messages: "tensor <= 8"
};

// The full names of the keys that legal_layouts() varies or sets to their defaults, unless they are kept.
const std::set<std::string>& varied_keys();

// The configurations that differ in the keys that best_layouts() varies, hold every rule between keys and the limits,
// and are divisible among the ranks. Tensor parallelism stays within `most_tensor` ranks, unless it is kept.
std::vector<config::Config> legal_layouts(const config::Config& config, int64_t devices, int64_t ranks_per_node,
                                          int64_t most_tensor, const LayoutLimits& limits = {});

}  // namespace terrace::plan
