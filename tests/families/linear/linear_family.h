// A family of linear layers that can be planned and not trained: keys, rules and a unit table, as docs/model.md
// requires of the part that a planner needs. Its products are small enough to work a step out by hand.
#pragma once

#include <cstdint>

#include "terrace/config/family.h"

namespace terrace::linear {

// All products have `width` inputs and outputs and one row for each sample, without bias. The first unit and the last
// one have one product. A layer has two, `up` and `down`, which tensor ranks cut by outputs and by inputs.
struct ModelConfig {
  int64_t layers = 0;
  int64_t width = 4;
  bool operator==(const ModelConfig&) const = default;
};

inline const ModelConfig& model_of(const config::Config& config) { return config.model.get<ModelConfig>(); }
inline ModelConfig& model_of(config::Config& config) { return config.model.get<ModelConfig>(); }

const config::Family& planned_family();

}  // namespace terrace::linear
