// Says how each parameter of a vision transformer is cut over the axis "tensor".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "terrace/mesh/param_mark.h"
#include "terrace/models/vit/settings/config.h"

namespace terrace::models::vit {

// The mark of a parameter by its full name and whole shape: the joint projections of queries, keys and values, also
// in the aggregation of variables, and the first feed-forward layers are cut by outputs, the layers after them by
// inputs, all other parameters are replicated.
ParamMark mark_of(const ModelConfig& config, const std::string& name, std::vector<int64_t> shape);

}  // namespace terrace::models::vit
