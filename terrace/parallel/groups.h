// Makes the communicators of a data-parallel rank from the mesh.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "terrace/comm/comm.h"
#include "terrace/mesh/mesh.h"
#include "terrace/mesh/shards.h"

namespace terrace::parallel {

// The communicators of a movement by rails, see mesh::Hops.
struct HopGroups {
  std::unique_ptr<comm::Comm> node = {}, rails = {};
};

// One communicator for each movement of mesh::ShardPlace, or the two of its hops, and three others.
struct DataGroups {
  mesh::ShardPlace place;
  int64_t coordinate = 0;  // of this rank among those that hold the same parameters
  HopGroups gather_hops = {}, reduce_hops = {}, reduce_across_hops = {}, update_hops = {};
  std::unique_ptr<comm::Comm> gather = {}, reduce = {}, reduce_across = {}, replicas = {}, update = {}, everyone = {};
  std::unique_ptr<comm::Comm> copy = {};            // ShardPlace::copy; null unless copies make steps by themselves
  std::unique_ptr<comm::Comm> model_parallel = {};  // the ranks with the same data, which hold the whole model together
  std::unique_ptr<comm::Comm> control = {};         // all ranks: counts, votes to stop, losses
  std::unique_ptr<comm::Comm> saving = {};          // all ranks, for the thread that saves checkpoints during training

  // The communicators of the movements, by their names in docs/cost_model.md.
  std::vector<comm::Comm*> of_movements() const;
};

// Weights are gathered between nodes by the given algorithm. Collective: every rank of the world calls it.
DataGroups connect(comm::World& world, const mesh::Mesh& mesh, const mesh::ShardSizes& sizes,
                   comm::Gathering rails_gathering = comm::Gathering::library);

// The communicators by which parameters of experts are moved, among the ranks that have the same experts
// (mesh::expert_replicas), whose names begin with "expert_": those of movements and `everyone`, the others being null.
// Collective: every rank of the world calls it.
DataGroups connect_experts(comm::World& world, const mesh::Mesh& mesh, const mesh::ShardSizes& sizes, int64_t experts);

// The groups of the first rank, as mesh::overview() shows them.
std::vector<mesh::Group> shown_groups(const mesh::Mesh& mesh, const mesh::ShardSizes& sizes);

}  // namespace terrace::parallel
