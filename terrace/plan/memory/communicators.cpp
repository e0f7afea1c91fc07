// Goes through the groups in the order in which training connects them.
#include "terrace/plan/memory/communicators.h"

#include <algorithm>
#include <ranges>

#include "terrace/mesh/shards.h"
#include "terrace/plan/memory/stage_memory.h"
#include "terrace/schedule/pipeline/placement.h"
#include "terrace/schedule/step/step.h"

namespace terrace::plan {
namespace {

using schedule::Movement;

// The tensor ranks that hold the same rows of a parameter, of the parameter that most of them share.
int64_t ranks_that_share(const PlannedRun& run) {
  const int64_t tensor = run.config.layout.tensor;
  int64_t sharing = 1;
  if (tensor == 1) return sharing;
  for (const schedule::UnitRow& row : run.table()) {
    for (const schedule::UnitParameter& parameter : row.parameters) {
      const ParamMark& mark = parameter.mark;
      if (mark.shared > 0 && mark.groups < tensor) sharing = std::max(sharing, tensor / mark.groups);
    }
  }
  return sharing;
}

// Whether the stage holds a copy of another stage's parameters, or another one a copy of its own.
bool shares_parameters(const PlannedRun& run, int64_t stage) {
  for (int64_t reader = 0; reader < run.placement.stages; ++reader) {
    const schedule::StageSegments& own = run.stages[static_cast<size_t>(stage)];
    for (const int64_t copy : run.stages[static_cast<size_t>(reader)].copies) {
      if (reader == stage || std::ranges::binary_search(own.held, copy)) return true;
    }
  }
  return false;
}

struct Counter {
  CommunicatorCount count;

  void add(int64_t members) {
    if (members == 2) ++count.pairs;
    if (members > 2) ++count.groups;
  }
};

}  // namespace

CommunicatorCount communicators_of(const PlannedRun& run, int64_t stage) {
  Counter counter;
  const int64_t stages = run.placement.stages, tensor = run.config.layout.tensor;
  counter.add(tensor);
  counter.add(ranks_that_share(run));
  const int64_t context = run.config.layout.context;
  counter.add(context);
  if (context > 1 && run.context_route == config::ContextRoute::ring) {
    counter.count.directions += context == 2 ? 2 : 4;  // to and from the next rank and the one before
  }
  counter.add(stages);
  for (const mesh::Direction& direction : schedule::stage_directions(run.placement)) {
    if (direction.from == stage || direction.to == stage) ++counter.count.directions;
  }
  if (shares_parameters(run, stage)) counter.add(2);
  const mesh::ShardPlace place(run.sizes, 0);
  const schedule::Movements movements = schedule::movements_of(run.sizes, false);
  const auto add_movement = [&](Movement movement, const std::vector<int64_t>& members) {
    if (!movements.has_two_hops(movement)) return counter.add(std::ssize(members));
    const mesh::Hops hops = mesh::hops_of(members, run.sizes, 0);
    counter.add(std::ssize(hops.node));
    counter.add(std::ssize(hops.rails));
  };
  add_movement(Movement::gather_weights, place.gather);
  add_movement(Movement::reduce, place.reduce);
  add_movement(Movement::reduce_across, place.reduce_across);
  add_movement(Movement::reduce_replicas, place.replicas);
  add_movement(Movement::publish, place.update);
  if (run.expert_sizes) {
    const int64_t experts = run.config.layout.experts;
    counter.add(experts);
    counter.count.directions += 2 * (experts - 1);  // to and from each other rank
    const mesh::ShardPlace of_experts(*run.expert_sizes, 0);
    for (const auto* members : {&of_experts.gather, &of_experts.reduce, &of_experts.reduce_across, &of_experts.replicas,
                                &of_experts.update, &of_experts.everyone}) {
      counter.add(std::ssize(*members));
    }
  }
  counter.add(run.sizes.ranks);  // all data-parallel ranks
  if (run.sizes.has_local_copies()) counter.add(run.sizes.optimizer);
  counter.add(stages * tensor);                                              // the ranks that hold one model
  counter.add(run.mesh.size());                                              // all ranks, for counts and votes
  counter.add(run.mesh.size());                                              // all ranks, for saving
  if (run.config.checkpoint.memory_every > 0) counter.add(run.mesh.size());  // for copies in memory
  return counter.count;
}

double communicator_bytes(const CommunicatorCount& count, const machine::Communicators& each) {
  const double pair = each.pair_bytes > 0 ? each.pair_bytes : each.bytes;
  const double of_channels =
      static_cast<double>(std::min(channels_of_message, each.channels)) / static_cast<double>(each.channels);
  return static_cast<double>(count.groups) * each.bytes +
         (static_cast<double>(count.pairs) + static_cast<double>(count.directions) * of_channels) * pair;
}

double communicator_bytes(const PlannedRun& run, int64_t stage, const machine::Communicators& each) {
  return each.bytes == 0 ? 0 : communicator_bytes(communicators_of(run, stage), each);
}

double stage_bytes(const PlannedRun& run, int64_t stage, const Target& target) {
  return stage_memory(run, stage, target.software).total() +
         communicator_bytes(run, stage, target.machine.communicators);
}

double needed_bytes(const PlannedRun& run, const Target& target) {
  double most = 0;
  for (int64_t stage = 0; stage < run.placement.stages; ++stage) {
    most = std::max(most, stage_bytes(run, stage, target));
  }
  return most;
}

}  // namespace terrace::plan
