// Traces the layers and heads of a graph network, in the order of the modules in models/gnn.
#pragma once

#include <string>

#include "terrace/layers/unit_trace.h"
#include "terrace/models/gnn/cost/graph_rows.h"
#include "terrace/models/gnn/settings/config.h"

namespace terrace::models::gnn {

// The radial functions of edges [factors, radial], computed of their vectors before a layer.
layers::Value radial_values(layers::UnitTrace& unit, const GraphRows& rows, const ModelConfig& config);

// `first` and `last` as in LayerPlace.
struct TracedLayer {
  std::string name;  // the beginning of its parameters' names
  NormKind norm = NormKind::none;
  bool first = false, last = false;
};
// A layer with what stands behind it. The states of atoms `x` become those that it returns.
layers::Value trace_layer(layers::UnitTrace& unit, const GraphRows& rows, const ModelConfig& config,
                          const TracedLayer& layer, const layers::Value& x, const layers::Value& radial);

// All heads of one branch, of the states of atoms and of what a graph's atoms are pooled to.
void trace_heads(layers::UnitTrace& unit, const GraphRows& rows, const ModelConfig& config, const std::string& name,
                 const layers::Value& atoms, const layers::Value& graphs, const layers::Value& radial);

}  // namespace terrace::models::gnn
