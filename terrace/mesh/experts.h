// Expert parallelism: the ranks of a pipeline stage are cut, in ascending order, into groups of so many neighbours that
// divide the experts of each layer among them. So an expert group spans tensor ranks first, then context and data
// ranks, and lies inside a node where it fits. Ranks with the same member number in their groups have the same experts
// of other tokens: they are to experts what data-parallel ranks are to all other parameters. Pure arithmetic;
// docs/experts.md explains it.
#pragma once

#include <cstdint>
#include <vector>

#include "terrace/config/config.h"
#include "terrace/mesh/group.h"
#include "terrace/mesh/mesh.h"
#include "terrace/mesh/shards.h"

namespace terrace::mesh {

// The group of layout.experts ranks of this one, named "experts"; its members are in order of their experts.
Group expert_group(const Mesh& mesh, int64_t rank, int64_t experts);

// The place of the rank's group among those of its stage.
int64_t expert_coordinate(const Mesh& mesh, int64_t rank, int64_t experts);

// The ranks with the same member number as this one in the groups with these coordinates.
Group expert_replicas(const std::vector<int64_t>& coordinates, std::string name, const Mesh& mesh, int64_t rank,
                      int64_t experts);

// The numbers of ranks with the same experts over which the weights, gradients and optimizer states of experts are
// sharded. What is sharded over n data-parallel ranks of `dense`, and so over n T ranks of the stage with T tensor
// ranks, is sharded over those of the same ranks that have the same experts: n T / X, at least 1. Throws UserError with
// valid numbers of expert ranks where X does not divide the ranks of a stage, or does not fit such a number.
ShardSizes expert_sizes(const config::LayoutConfig& layout, const ShardSizes& dense, const Mesh& mesh);

}  // namespace terrace::mesh
