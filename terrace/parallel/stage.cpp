// Which units a stage keeps.
#include "terrace/parallel/stage.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <set>

#include "terrace/base/error.h"
#include "terrace/parallel/transfer.h"
#include "terrace/schedule/split.h"

namespace terrace::parallel {
namespace {

// Units other than its own that a part's units read.
std::set<int64_t> read_elsewhere(models::Model& model, const UnitRange& part) {
  std::set<int64_t> units;
  for (int64_t unit = part.begin; unit < part.end; ++unit) {
    for (const int64_t used : model.used_units(unit)) units.insert(used);
  }
  std::erase_if(units, [&](int64_t unit) { return unit >= part.begin && unit < part.end; });
  return units;
}

void drop(nn::Parameter& parameter) {
  const auto nowhere = parameter.value.options().device(at::kMeta).requires_grad(false);
  parameter.value = at::empty(parameter.value.sizes(), nowhere).set_requires_grad(true);
}

// How many units each part has, once those that lie in two are halved.
std::vector<int64_t> split_by_cost(models::Model& model, int64_t parts) {
  const std::vector<double> units = model.unit_costs();
  std::vector<double> costs;    // of units that cannot be halved, and of halves
  std::vector<int64_t> halved;  // by half: the unit that ends in its middle behind it, or -1
  for (int64_t unit = 0; unit < model.num_units(); ++unit) {
    const std::vector<double> halves = model.half_costs(unit);
    if (halves.empty()) {
      costs.push_back(units[static_cast<size_t>(unit)]);
      halved.push_back(-1);
    } else {
      costs.insert(costs.end(), halves.begin(), halves.end());
      halved.insert(halved.end(), {unit, -1});
    }
  }
  std::vector<int64_t> counts = schedule::split_by_cost(costs, parts), cut;
  int64_t begin = 0;
  for (int64_t& count : counts) {
    const int64_t end = begin + count;
    // Halves that stay together are one unit.
    for (int64_t half = begin; half < end - 1; ++half) count -= static_cast<int64_t>(halved[half] >= 0);
    if (halved[end - 1] >= 0) cut.push_back(halved[end - 1]);
    begin = end;
  }
  for (auto unit = cut.rbegin(); unit != cut.rend(); ++unit) model.halve(*unit);
  return counts;
}

}  // namespace

std::vector<UnitRange> split_units(models::Model& model, int64_t parts, const std::vector<int64_t>& layers_of_part) {
  std::vector<int64_t> counts = layers_of_part;
  if (counts.empty()) {
    counts = split_by_cost(model, parts);
  } else {
    schedule::check_given_split(counts, model.num_units() - 2, parts);
    ++counts.front();
    ++counts.back();
  }
  std::vector<UnitRange> ranges;
  int64_t begin = 0;
  for (const int64_t count : counts) {
    ranges.push_back({begin, begin + count});
    begin += count;
  }
  TERRACE_CHECK(begin == model.num_units(), "{} units in parts, {} in the model", begin, model.num_units());
  return ranges;
}

std::vector<int64_t> held_units(models::Model& model, const schedule::Placement& placement,
                                const std::vector<UnitRange>& parts, int64_t stage) {
  std::set<int64_t> units;
  for (size_t part = 0; part < parts.size(); ++part) {
    if (placement.stage_of(static_cast<int64_t>(part)) != stage) continue;
    for (int64_t unit = parts[part].begin; unit < parts[part].end; ++unit) {
      units.insert(unit);
      for (const int64_t used : model.used_units(unit)) units.insert(used);
    }
  }
  return {units.begin(), units.end()};
}

Stage::Stage(models::Model& model, comm::World& world, const mesh::Mesh& mesh, const schedule::Placement& placement,
             const std::vector<UnitRange>& parts)
    : model_(model),
      placement_(placement),
      parts_(parts),
      stage_(mesh.coordinate(world.rank(), "pipeline")),
      group_(world.connect(mesh.group(world.rank(), "pipeline"))) {
  // Stages that have a unit, its own first.
  std::set<int64_t> stages;
  for (size_t part = 0; part < parts.size(); ++part) {
    const int64_t reader = placement.stage_of(static_cast<int64_t>(part));
    for (const int64_t unit : read_elsewhere(model, parts[part])) {
      const auto owner =
          std::ranges::find_if(parts, [&](const UnitRange& r) { return unit >= r.begin && unit < r.end; });
      const int64_t from = placement.stage_of(owner - parts.begin());
      if (from == reader) continue;
      stages.insert({from, reader});
      if (reader == stage_) copies_.push_back(unit);
      if (reader == stage_ || from == stage_) shared_.push_back(unit);
    }
  }
  TERRACE_CHECK(stages.size() == 0 || stages.size() == 2, "{} stages share units", stages.size());
  mesh::Group sharing{.name = "tied", .ranks = {}};
  const std::vector<int64_t> ranks = mesh.group(world.rank(), "pipeline").ranks;
  for (const int64_t stage : shared_.empty() ? std::set<int64_t>{stage_} : stages)
    sharing.ranks.push_back(ranks[stage]);
  sharing_ = world.connect(sharing);
  const std::vector<int64_t> held_units = held();
  for (int64_t unit = 0; unit < model.num_units(); ++unit) {
    const bool kept = std::ranges::find(held_units, unit) != held_units.end();
    const bool copy = std::ranges::find(copies_, unit) != copies_.end();
    for (nn::Parameter* parameter : model.unit_parameters(unit)) {
      if (!kept) drop(*parameter);
      if (copy) parameter->mark.counted = false;
      for (RowRange& rows : parameter->mark.row_ranges) rows.counted = rows.counted && !copy;
    }
  }
}

int64_t Stage::chunk_with(int64_t part) const {
  if (part < 0 || part >= placement_.parts() || placement_.stage_of(part) != stage_) return -1;
  return placement_.chunk_of(part);
}

bool Stage::has_last() const { return placement_.stage_of(placement_.parts() - 1) == stage_; }

bool Stage::computes(int64_t unit) const {
  for (int64_t chunk = 0; chunk < placement_.chunks; ++chunk) {
    if (unit >= units(chunk).begin && unit < units(chunk).end) return true;
  }
  return false;
}

std::vector<nn::Parameter*> Stage::parameters() const {
  std::vector<nn::Parameter*> list;
  for (const int64_t unit : held()) {
    const std::vector<nn::Parameter*> own = model_.unit_parameters(unit);
    list.insert(list.end(), own.begin(), own.end());
  }
  return list;
}

void Stage::sum_copies(const std::vector<optim::Shard>& shards) {
  if (shared_.empty()) return;
  const at::NoGradGuard no_grad;
  size_t next = 0;  // of the shards
  for (const int64_t unit : held()) {
    if (model_.unit_parameters(unit).empty()) continue;
    const at::Tensor& gradient = shards.at(next++).gradient;
    if (std::ranges::find(shared_, unit) == shared_.end()) continue;
    Transfer::all_reduce(*sharing_, gradient, gradient.scalar_type(),
                         {.what = "sum gradients of tied weights", .unit = unit, .phase = "step"})
        .finish();
  }
}

}  // namespace terrace::parallel
