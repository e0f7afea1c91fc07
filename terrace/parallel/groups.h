// The communicators of the data-parallel ranks, made from the mesh.
#pragma once

#include <memory>
#include <string>

#include "terrace/comm/comm.h"
#include "terrace/mesh/mesh.h"
#include "terrace/mesh/shards.h"

namespace terrace::parallel {

// One for each movement of mesh::ShardPlace, and three that have nothing to do with shards.
struct DataGroups {
  mesh::ShardPlace place;
  std::unique_ptr<comm::Comm> gather = {}, reduce = {}, reduce_across = {}, replicas = {}, update = {}, everyone = {};
  std::unique_ptr<comm::Comm> parts = {};    // ranks with the same data that have the other parts of the model
  std::unique_ptr<comm::Comm> control = {};  // all ranks: counts, votes to stop, losses
  std::unique_ptr<comm::Comm> saving = {};   // all ranks, for a thread beside training
};

// Every rank of the world calls it at the same time.
DataGroups connect(comm::World& world, const mesh::Mesh& mesh, const mesh::ShardSizes& sizes);

// The groups of the first rank, for mesh::overview().
std::vector<mesh::Group> shown_groups(const mesh::Mesh& mesh, const mesh::ShardSizes& sizes);

}  // namespace terrace::parallel
