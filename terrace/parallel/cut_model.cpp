// Divides layers among tensor ranks, the model among stages, and the parameters of a stage among data-parallel ranks.
#include "terrace/parallel/cut_model.h"

#include <cmath>
#include <limits>

#include "terrace/base/error.h"

namespace terrace::parallel {
namespace {

// A choice that depends on the machine is made before.
comm::Gathering rails_gathering(const config::LayoutConfig& layout) {
  return layout.rails_gather == config::RailsGather::doubling ? comm::Gathering::doubling : comm::Gathering::library;
}

std::unique_ptr<DataGroups> experts_of(comm::World& world, const schedule::ResolvedLayout& resolved,
                                       const config::LayoutConfig& layout) {
  if (!resolved.expert_sizes) return nullptr;
  return std::make_unique<DataGroups>(connect_experts(world, resolved.mesh, *resolved.expert_sizes, layout.experts));
}

}  // namespace

CutModel::CutModel(models::Model& model, comm::World& world, const schedule::ResolvedLayout& resolved,
                   const config::LayoutConfig& layout, const ShardingOptions& options)
    : mesh(resolved.mesh),
      tensor(model, world, mesh, layout.sequence_parallel),
      context(world, mesh, resolved.context, resolved.context_route),
      experts(model, world, mesh, layout.experts),
      stage(model, world, resolved),
      groups(connect(world, mesh, resolved.sizes, rails_gathering(layout))),
      expert_groups(experts_of(world, resolved, layout)),
      data_ranks(model, world, mesh),
      sharded(model, stage, groups, expert_groups.get(), options),
      first_gradients(model, stage, tensor),
      shards(sharded.shards()),
      layout_(layout),
      movements_(resolved.movements(layout)),
      evaluation_(
          schedule::evaluation(stage.own(), schedule::neighbours(stage.placement(), stage.number()), movements_)) {
  check_whole(model);
}

void CutModel::check_whole(models::Model& model) {
  const int64_t expected = nn::whole_elements(model.parameters());
  int64_t counted = 0;
  for (const optim::Shard& shard : shards) {
    for (const optim::ShardPiece& piece : shard.own_pieces()) {
      for (const LocalRange& range : counted_ranges(piece.parameter->mark, piece.begin, piece.end)) {
        counted += range.end - range.begin;
      }
    }
  }
  groups.control->all_reduce(&counted, 1, comm::Type::int64, {.what = "count elements"}).wait();
  TERRACE_CHECK(counted == expected, "the ranks have {} elements of a model of {}", counted, expected);
}

// Caches the list, since long pipelines have long lists and most steps have the same number of micro-batches.
const schedule::StepInstructions& CutModel::training_step(int64_t micro_batches) {
  if (micro_batches != micro_batches_) {
    training_step_ = make_training_step(micro_batches, schedule::Posting::early);
    micro_batches_ = micro_batches;
  }
  return training_step_;
}

schedule::StepInstructions CutModel::careful_training_step(int64_t micro_batches) const {
  return make_training_step(micro_batches, schedule::Posting::careful);
}

schedule::StepInstructions CutModel::make_training_step(int64_t micro_batches, schedule::Posting posting) const {
  const auto lists = schedule::instructions(schedule::pipeline_of(layout_, micro_batches), posting);
  const auto own = static_cast<size_t>(stage.number());
  return schedule::training_step(lists.at(own), micro_batches, stage.own(), movements_);
}

void CutModel::sum_shared_gradients() {
  stage.sum_copies(shards);
  tensor.sum_shares(shards);
}

optim::GradientNorm CutModel::gradient_norm() {
  if (!groups.copy) return optim::gradient_norm(shards, *groups.everyone, *groups.model_parallel);
  // Each rank counts all that it updates, not the part that it saves.
  std::vector<optim::Shard> of_copy = shards;
  for (optim::Shard& shard : of_copy) {
    shard.own_begin = 0;
    shard.own_end = shard.value.numel();
  }
  optim::GradientNorm norm = optim::gradient_norm(of_copy, *groups.copy, *groups.model_parallel);
  double bad = std::isfinite(norm.norm) ? 0 : 1;
  groups.control->all_reduce(&bad, 1, comm::Type::fp64, {.what = "finite gradients of copies"}).wait();
  if (bad == 0 || !std::isfinite(norm.norm)) return norm;
  return {.norm = std::numeric_limits<double>::quiet_NaN(), .first_bad = "one of another copy"};
}

void CutModel::sum_over_copy(std::vector<double>& numbers, const char* what) {
  const auto sum = [&](comm::Comm& group) {
    group.all_reduce(numbers.data(), std::ssize(numbers), comm::Type::fp64, {.what = what}).wait();
  };
  if (!groups.copy) return sum(*groups.control);
  sum(*groups.copy);
  sum(*groups.model_parallel);
}

std::vector<comm::Comm*> CutModel::groups_of_step() {
  std::vector<comm::Comm*> all = groups.of_movements();
  if (expert_groups) {
    for (comm::Comm* group : expert_groups->of_movements()) all.push_back(group);
    all.push_back(expert_groups->everyone.get());
    all.push_back(experts.group());
  }
  for (comm::Comm* group :
       {&tensor.group(), &tensor.sharing(), &stage.group(), &stage.sharing(), data_ranks.group(), context.group(),
        groups.everyone.get(), groups.model_parallel.get(), groups.control.get()}) {
    if (group != nullptr) all.push_back(group);
  }
  return all;
}

}  // namespace terrace::parallel
