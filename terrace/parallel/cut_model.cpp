// First the matrices of every layer, then whole layers, then what data-parallel ranks share of the rest.
#include "terrace/parallel/cut_model.h"

#include <algorithm>
#include <iterator>

#include "terrace/base/error.h"
#include "terrace/mesh/shards.h"

namespace terrace::parallel {
namespace {

schedule::StageUnits stage_units(models::Model& model, const Stage& stage) {
  schedule::StageUnits units{.chunks = {},
                             .last_unit = model.num_units() - 1,
                             .reads = std::vector<std::vector<int64_t>>(static_cast<size_t>(model.num_units())),
                             .held = {},
                             .copies = {}};
  for (int64_t chunk = 0; chunk < stage.placement().chunks; ++chunk) {
    std::vector<int64_t>& list = units.chunks.emplace_back();
    for (int64_t unit = stage.units(chunk).begin; unit < stage.units(chunk).end; ++unit) {
      list.push_back(unit);
      units.reads[static_cast<size_t>(unit)] = model.used_units(unit);
    }
  }
  const auto has_parameters = [&](int64_t unit) { return !model.unit_parameters(unit).empty(); };
  std::ranges::copy_if(stage.held(), std::back_inserter(units.held), has_parameters);
  std::ranges::copy_if(stage.copies(), std::back_inserter(units.copies), has_parameters);
  return units;
}

// The stages that have the parts of the model before and after each chunk, where they are others.
std::vector<schedule::Neighbours> neighbours(const Stage& stage) {
  const schedule::Placement& placement = stage.placement();
  std::vector<schedule::Neighbours> chunks;
  for (int64_t chunk = 0; chunk < placement.chunks; ++chunk) {
    const int64_t part = placement.part(stage.number(), chunk);
    const auto other = [&](int64_t neighbour) {
      if (neighbour < 0 || neighbour >= placement.parts()) return int64_t{-1};
      const int64_t found = placement.stage_of(neighbour);
      return found == stage.number() ? int64_t{-1} : found;
    };
    chunks.push_back({.before = other(part - 1), .after = other(part + 1)});
  }
  return chunks;
}

}  // namespace

CutModel::CutModel(models::Model& model, comm::World& world, const mesh::Mesh& mesh, const config::LayoutConfig& layout,
                   const ShardingOptions& options)
    : tensor(model, world, mesh, layout.sequence_parallel),
      stage(model, world, mesh, schedule::placement(schedule::pipeline_of(layout, 1)),
            split_units(model, layout.pipeline * layout.chunks, layout.stage_layers)),
      groups(connect(world, mesh, mesh::shard_sizes(layout, mesh))),
      sharded(model, stage, groups, options),
      shards(sharded.shards()),
      layout_(layout),
      units_(stage_units(model, stage)),
      movements_(schedule::movements_of(groups.place.sizes, layout.deterministic, layout.prefetch)),
      evaluation_(schedule::evaluation(units_, neighbours(stage), movements_)) {
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

// Long pipelines have long lists, and most steps have as many micro-batches as the one before.
const schedule::StepInstructions& CutModel::training_step(int64_t micro_batches) {
  if (micro_batches != micro_batches_) {
    const auto lists = schedule::instructions(schedule::pipeline_of(layout_, micro_batches));
    const auto own = static_cast<size_t>(stage.number());
    training_step_ = schedule::training_step(lists.at(own), micro_batches, units_, movements_);
    micro_batches_ = micro_batches;
  }
  return training_step_;
}

void CutModel::sum_shared_gradients() {
  stage.sum_copies(shards);
  tensor.sum_shares(shards);
}

optim::GradientNorm CutModel::gradient_norm() { return optim::gradient_norm(shards, *groups.everyone, *groups.parts); }

}  // namespace terrace::parallel
