// Connects the members of each movement.
#include "terrace/parallel/groups.h"

namespace terrace::parallel {
namespace {

struct GroupOfMovement {
  const char* name;
  std::vector<int64_t> mesh::ShardPlace::*members;
  std::unique_ptr<comm::Comm> DataGroups::*comm;
};

constexpr GroupOfMovement groups_of_movements[] = {
    {"shard_weights", &mesh::ShardPlace::gather, &DataGroups::gather},
    {"shard_gradients", &mesh::ShardPlace::reduce, &DataGroups::reduce},
    {"shard_optimizer", &mesh::ShardPlace::reduce_across, &DataGroups::reduce_across},
    {"replicas", &mesh::ShardPlace::replicas, &DataGroups::replicas},
    {"update", &mesh::ShardPlace::update, &DataGroups::update},
    {"data", &mesh::ShardPlace::everyone, &DataGroups::everyone},
};

mesh::Group with_same_data(const mesh::Mesh& mesh, int64_t rank) {
  mesh::Group group{.name = "model_parallel", .ranks = {}};
  for (int64_t other = 0; other < mesh.size(); ++other) {
    if (mesh.coordinate(other, "data") == mesh.coordinate(rank, "data")) group.ranks.push_back(other);
  }
  return group;
}

}  // namespace

DataGroups connect(comm::World& world, const mesh::Mesh& mesh, const mesh::ShardSizes& sizes) {
  DataGroups groups{.place = mesh::ShardPlace(sizes, mesh.coordinate(world.rank(), "data"))};
  for (const GroupOfMovement& movement : groups_of_movements) {
    const std::vector<int64_t>& members = groups.place.*movement.members;
    groups.*movement.comm = world.connect(mesh::ranks_of(members, movement.name, mesh, world.rank()));
  }
  groups.model_parallel = world.connect(with_same_data(mesh, world.rank()));
  groups.control = world.connect(mesh::all_ranks("control", world.size()));
  groups.saving = world.connect(mesh::all_ranks("saving", world.size()));
  groups.saving->lift_time_limit();  // the time of a write to disk has no bound
  return groups;
}

std::vector<mesh::Group> shown_groups(const mesh::Mesh& mesh, const mesh::ShardSizes& sizes) {
  const mesh::ShardPlace place(sizes, 0);
  std::vector<mesh::Group> groups;
  for (const GroupOfMovement& movement : groups_of_movements) {
    const std::vector<int64_t>& members = place.*movement.members;
    if (members.size() < 2 || movement.members == &mesh::ShardPlace::everyone) continue;
    groups.push_back(mesh::ranks_of(members, movement.name, mesh, 0));
  }
  return groups;
}

}  // namespace terrace::parallel
