// The number of parameters of a graph network in closed form.
#pragma once

#include <cstdint>

#include "terrace/models/gnn/settings/config.h"

namespace terrace::models::gnn {

int64_t parameter_count(const ModelConfig& config);

}  // namespace terrace::models::gnn
