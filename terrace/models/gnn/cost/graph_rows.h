// Determines how many rows the tensors of a micro-batch of graphs have.
#pragma once

#include <cstdint>

#include "terrace/models/gnn/settings/config.h"
#include "terrace/schedule/unit_table.h"

namespace terrace::models::gnn {

// The numbers of rows at one level of the graphs. Level 0 is that of the atoms, and the nodes of each next level are
// clusters of the nodes of the level before.
struct GraphRows {
  int64_t graphs = 0, atoms = 0, edges = 0;
  int64_t factors = 0;  // edges, or pairs of them where the model computes pairs
  int64_t components() const { return 3 * atoms; }
};

// Takes the rows of a level from options.sizes, whose names are those of data::level_tensor(). A coarse level that they
// do not name has a share of the nodes and edges of the level before: the share of molecules with the edges of a radius
// of 4 to 6 angstrom, or of their bonds and of meshes as given edges.
GraphRows graph_rows(const ModelConfig& config, const schedule::UnitTableOptions& options, int64_t level);

}  // namespace terrace::models::gnn
