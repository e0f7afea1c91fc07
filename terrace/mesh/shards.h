// Sharded data parallelism as three nested groups W in G in O of the data-parallel ranks: who holds which part of a
// block of parameters, and between whom each of the three movements goes. Pure arithmetic; docs/sharding.md explains
// it.
//
// ZeRO's stages (Rajbhandari et al., arXiv 1910.02054), hybrid sharding (Zhao et al., arXiv 2304.11277), node-local
// secondary weights (Wang et al., arXiv 2306.10209) and three levels are settings of it.
#pragma once

#include <cstdint>
#include <vector>

#include "terrace/config/config.h"
#include "terrace/mesh/group.h"
#include "terrace/mesh/mesh.h"

namespace terrace::mesh {

// Over how many data-parallel ranks weights, gradients and optimizer states are cut. Each divides the next.
struct ShardSizes {
  int64_t weights = 1, gradients = 1, optimizer = 1;
  int64_t ranks = 1;  // of the data axis

  bool operator==(const ShardSizes&) const = default;
};

// What a configuration asks for on a mesh. Throws UserError with every setting that does not fit the ranks, and sizes
// that do.
ShardSizes shard_sizes(const config::LayoutConfig& layout, const Mesh& mesh);

// A part of a buffer that is cut into `parts` equal ones.
struct Part {
  int64_t number = 0, parts = 1;

  int64_t size(int64_t total) const { return total / parts; }
  int64_t begin(int64_t total) const { return number * size(total); }
  bool operator==(const Part&) const = default;
};

// The place of one data-parallel rank. A rank's optimizer part lies inside its gradient part, and that inside its
// weight part. Groups are lists of data coordinates, which become ranks by ranks_of().
struct ShardPlace {
  ShardPlace(const ShardSizes& sizes, int64_t data_coordinate);

  ShardSizes sizes;
  Part weights, gradients, optimizer;
  // The part that this rank alone answers for: it gives it initial values, saves it, and counts it in the gradient
  // norm. The optimizer part, cut once more over the replicas that hold it.
  Part own;

  // Gather weights before they are used: the parts of all weights. Members by weight part.
  std::vector<int64_t> gather;
  // Reduce gradients of a micro-batch from the whole to the gradient part. Members by gradient part.
  std::vector<int64_t> reduce;
  // And from the gradient part to the optimizer part. Members by optimizer part.
  std::vector<int64_t> reduce_across;
  // Ranks with the same optimizer part, which all-reduce it. Members by own part.
  std::vector<int64_t> replicas;
  // Gather updated weights: from optimizer parts to the weight part. Members by optimizer part.
  std::vector<int64_t> update;
  // All data-parallel ranks, members by own part.
  std::vector<int64_t> everyone;
};

// A place's group with its name, as ranks of the mesh.
Group ranks_of(const std::vector<int64_t>& data_coordinates, const char* name, const Mesh& mesh, int64_t rank);

// Elements of a flat buffer for `elements` of them: the next multiple of `ranks` pieces of `piece` elements, so that
// every part ends where a piece does.
int64_t padded_size(int64_t elements, int64_t ranks, int64_t piece);

}  // namespace terrace::mesh
