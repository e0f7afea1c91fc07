// Describes what a graph network asks of its data.
#pragma once

#include "terrace/data/graphs/graphs_request.h"
#include "terrace/models/gnn/settings/config.h"

namespace terrace::models::gnn {

// The request of the model, with the counts of the terms of settings/gnn_figures.h and the cost of graphs by the unit
// table.
data::GraphsRequest graphs_request(const ModelConfig& config);

// The time of a training step for a graph, an atom and an edge, in any unit: the floating-point operations, and for
// each byte that is read or written as many as a processor computes meanwhile.
data::GraphCost graph_cost(const ModelConfig& config);

}  // namespace terrace::models::gnn
