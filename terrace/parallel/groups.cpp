// Connects the members of each movement.
#include "terrace/parallel/groups.h"

#include <algorithm>
#include <string>

#include "terrace/mesh/experts.h"
#include "terrace/schedule/step/step.h"

namespace terrace::parallel {
namespace {

using schedule::Hop;
using schedule::Movement;

struct GroupOfMovement {
  Movement movement;
  std::vector<int64_t> mesh::ShardPlace::*members;
  std::unique_ptr<comm::Comm> DataGroups::*comm;
  HopGroups DataGroups::*hops = nullptr;
};

constexpr GroupOfMovement groups_of_movements[] = {
    {Movement::gather_weights, &mesh::ShardPlace::gather, &DataGroups::gather, &DataGroups::gather_hops},
    {Movement::reduce, &mesh::ShardPlace::reduce, &DataGroups::reduce, &DataGroups::reduce_hops},
    {Movement::reduce_across, &mesh::ShardPlace::reduce_across, &DataGroups::reduce_across,
     &DataGroups::reduce_across_hops},
    {Movement::reduce_replicas, &mesh::ShardPlace::replicas, &DataGroups::replicas},
    {Movement::publish, &mesh::ShardPlace::update, &DataGroups::update, &DataGroups::update_hops},
};

// Calls body(name, data coordinates, hop) for the one or two groups of the movement.
template <typename Body>
void for_groups(const GroupOfMovement& movement, const mesh::ShardPlace& place, int64_t data_coordinate,
                const Body& body) {
  const std::vector<int64_t>& members = place.*movement.members;
  // Deterministic training does not use the groups of its reductions.
  if (!schedule::movements_of(place.sizes, false).has_two_hops(movement.movement)) {
    return body(schedule::group_of(movement.movement), members, Hop::whole);
  }
  const mesh::Hops hops = mesh::hops_of(members, place.sizes, data_coordinate);
  body(schedule::group_of(movement.movement, Hop::node), hops.node, Hop::node);
  body(schedule::group_of(movement.movement, Hop::rails), hops.rails, Hop::rails);
}

}  // namespace

std::vector<comm::Comm*> DataGroups::of_movements() const {
  std::vector<comm::Comm*> all;
  const auto add = [&](const std::unique_ptr<comm::Comm>& comm) {
    if (comm) all.push_back(comm.get());
  };
  for (const GroupOfMovement& movement : groups_of_movements) {
    add(this->*movement.comm);
    if (movement.hops == nullptr) continue;
    add((this->*movement.hops).node);
    add((this->*movement.hops).rails);
  }
  return all;
}

DataGroups connect(comm::World& world, const mesh::Mesh& mesh, const mesh::ShardSizes& sizes,
                   comm::Gathering rails_gathering) {
  const int64_t data_coordinate = mesh.coordinate(world.rank(), mesh::shard_axes);
  DataGroups groups{.place = mesh::ShardPlace(sizes, data_coordinate), .coordinate = data_coordinate};
  for (const GroupOfMovement& movement : groups_of_movements) {
    for_groups(movement, groups.place, data_coordinate,
               [&](const char* name, const std::vector<int64_t>& members, Hop hop) {
                 std::unique_ptr<comm::Comm>& comm = hop == Hop::whole  ? groups.*movement.comm
                                                     : hop == Hop::node ? (groups.*movement.hops).node
                                                                        : (groups.*movement.hops).rails;
                 comm = world.connect(mesh::ranks_of(members, name, mesh, world.rank()));
                 if (hop == Hop::rails) comm->gather_by(rails_gathering);
               });
  }
  groups.everyone = world.connect(mesh::ranks_of(groups.place.everyone, "data", mesh, world.rank()));
  if (sizes.has_local_copies()) {
    groups.copy = world.connect(mesh::ranks_of(groups.place.copy, "copy", mesh, world.rank()));
  }
  groups.model_parallel = world.connect(mesh.same_coordinate(world.rank(), mesh::shard_axes, "model_parallel"));
  groups.control = world.connect(mesh::all_ranks("control", world.size()));
  groups.saving = world.connect(mesh::all_ranks("saving", world.size()));
  groups.saving->lift_time_limit();  // the time of a write to disk has no bound
  return groups;
}

DataGroups connect_experts(comm::World& world, const mesh::Mesh& mesh, const mesh::ShardSizes& sizes, int64_t experts) {
  const int64_t coordinate = mesh::expert_coordinate(mesh, world.rank(), experts);
  DataGroups groups{.place = mesh::ShardPlace(sizes, coordinate), .coordinate = coordinate};
  const auto group = [&](const std::string& name, const std::vector<int64_t>& members) {
    return world.connect(mesh::expert_replicas(members, "expert_" + name, mesh, world.rank(), experts));
  };
  for (const GroupOfMovement& movement : groups_of_movements) {
    groups.*movement.comm = group(schedule::group_of(movement.movement), groups.place.*movement.members);
  }
  groups.everyone = group("data", groups.place.everyone);
  return groups;
}

std::vector<mesh::Group> shown_groups(const mesh::Mesh& mesh, const mesh::ShardSizes& sizes) {
  const mesh::ShardPlace place(sizes, 0);
  std::vector<mesh::Group> groups;
  for (const GroupOfMovement& movement : groups_of_movements) {
    for_groups(movement, place, 0, [&](const char* name, const std::vector<int64_t>& members, Hop) {
      if (members.size() > 1) groups.push_back(mesh::ranks_of(members, name, mesh, 0));
    });
  }
  return groups;
}

}  // namespace terrace::parallel
