// Counts the layers and heads of a graph network, in the order of the parameters of the modules in models/gnn.
#pragma once

#include <string>

#include "terrace/models/gnn/cost/unit_counter.h"
#include "terrace/models/gnn/settings/config.h"

namespace terrace::models::gnn {

// A layer with what stands behind it; `name` precedes its parameters. `first` and `last` as in LayerPlace.
void count_layer(UnitCounter& unit, const ModelConfig& config, NormKind norm, const std::string& name, bool first,
                 bool last);

// What is computed of the vectors of edges before a layer.
void count_geometry(UnitCounter& unit, const ModelConfig& config);

// All heads of one branch.
void count_heads(UnitCounter& unit, const ModelConfig& config, const std::string& name);

}  // namespace terrace::models::gnn
