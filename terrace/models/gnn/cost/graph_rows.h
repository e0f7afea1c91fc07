// How many rows the tensors of a micro-batch of graphs have.
#pragma once

#include <cstdint>

#include "terrace/models/gnn/settings/config.h"
#include "terrace/schedule/unit_table.h"

namespace terrace::models::gnn {

// At one level of the graphs: 0 is that of the atoms, and each next one that of clusters of the nodes of the one
// before.
struct GraphRows {
  int64_t graphs = 0, atoms = 0, edges = 0;
  int64_t factors = 0;  // edges, or pairs of them where the model computes pairs
  int64_t components() const { return 3 * atoms; }
};

// From options.sizes, whose names are those of data::level_tensor(). Where they say nothing about a coarse level, it
// has a share of the nodes and edges of the level before: that of molecules with the edges of a radius of 4 to 6
// angstrom, or of their bonds and of meshes as given edges.
GraphRows graph_rows(const ModelConfig& config, const schedule::UnitTableOptions& options, int64_t level);

}  // namespace terrace::models::gnn
