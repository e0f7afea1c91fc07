// Counts the units of each virtual stage first and forms segments within virtual stages afterwards.
#include "terrace/schedule/partition.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "terrace/base/error.h"
#include "terrace/schedule/step/split.h"

namespace terrace::schedule {
namespace {

// The number of units of each virtual stage, divided by cost. Units that share a graph stay together.
std::vector<int64_t> split_units(const UnitTable& table, int64_t virtual_stages) {
  std::vector<double> costs;
  std::vector<int64_t> sizes;  // units of each cost
  for (const UnitRow& row : table) {
    if (row.shares_graph && !costs.empty()) {
      costs.back() += row.forward_flops;
      ++sizes.back();
    } else {
      costs.push_back(row.forward_flops);
      sizes.push_back(1);
    }
  }
  std::vector<int64_t> counts;
  auto next = sizes.begin();
  for (const int64_t count : split_by_cost(costs, virtual_stages)) {
    counts.push_back(0);
    for (int64_t i = 0; i < count; ++i) counts.back() += *next++;
  }
  return counts;
}

std::vector<int64_t> given_units(const UnitTable& table, const std::vector<int64_t>& layers_of_stage,
                                 int64_t virtual_stages) {
  std::set<int64_t> layers;
  for (const UnitRow& row : table) {
    if (row.layer >= 0) layers.insert(row.layer);
  }
  check_given_split(layers_of_stage, static_cast<int64_t>(layers.size()), virtual_stages);
  std::vector<int64_t> counts(static_cast<size_t>(virtual_stages), 0);
  size_t virtual_stage = 0;
  int64_t begun = 0, last_layer = -1;  // layers of the current virtual stage so far
  for (const UnitRow& row : table) {
    if (row.layer >= 0 && row.layer != last_layer) {
      while (begun == layers_of_stage[virtual_stage]) {
        ++virtual_stage;
        begun = 0;
      }
      ++begun;
      last_layer = row.layer;
    }
    ++counts[virtual_stage];
  }
  // A last virtual stage without layers has the model's last unit only.
  if (counts.back() == 0) {
    --counts[virtual_stage];
    ++counts.back();
  }
  return counts;
}

// Checks that units which share a graph are in one virtual stage.
void check_graphs(const UnitTable& table, const std::vector<int64_t>& counts) {
  int64_t begin = 0;
  for (size_t virtual_stage = 0; virtual_stage < counts.size(); begin += counts[virtual_stage++]) {
    const UnitRow& row = table.at(static_cast<size_t>(begin));
    if (begin == 0 || !row.shares_graph) continue;
    throw UserError::of(
        "the split begins virtual stage {} with {}, whose backward needs the unit before it too; move that boundary or "
        "use "
        "fewer virtual stages",
        virtual_stage, row.name);
  }
}

}  // namespace

Partition partition(const UnitTable& table, int64_t virtual_stages, const std::vector<int64_t>& layers_of_stage) {
  const std::vector<int64_t> counts = layers_of_stage.empty() ? split_units(table, virtual_stages)
                                                              : given_units(table, layers_of_stage, virtual_stages);
  Partition made;
  check_graphs(table, counts);
  std::vector<int64_t> segment_of;  // by unit
  int64_t unit = 0;
  for (const int64_t count : counts) {
    const auto begin = static_cast<int64_t>(made.segments.size());
    const int64_t end = unit + count;
    for (int64_t first = unit; unit < end; ++unit) {
      const UnitRow& row = table[static_cast<size_t>(unit)];
      const bool joins = unit > first && (row.shares_graph ||
                                          (row.layer >= 0 && row.layer == table[static_cast<size_t>(unit) - 1].layer));
      if (!joins) made.segments.push_back({.units = {unit, unit}, .layer = row.layer});
      Segment& segment = made.segments.back();
      ++segment.units.end;
      segment.has_parameters = segment.has_parameters || !row.parameters.empty();
      segment_of.push_back(static_cast<int64_t>(made.segments.size()) - 1);
    }
    made.virtual_stages.push_back({begin, static_cast<int64_t>(made.segments.size())});
  }
  for (size_t number = 0; number < made.segments.size(); ++number) {
    std::set<int64_t> reads = {static_cast<int64_t>(number)};
    for (int64_t own = made.segments[number].units.begin; own < made.segments[number].units.end; ++own) {
      for (const int64_t read : table[static_cast<size_t>(own)].reads_also) {
        reads.insert(segment_of.at(static_cast<size_t>(read)));
      }
    }
    made.segments[number].reads.assign(reads.begin(), reads.end());
  }
  return made;
}

Partition partition(const UnitTable& table, const config::LayoutConfig& layout) {
  return partition(table, layout.pipeline * layout.chunks, layout.stage_layers);
}

void check_recompute(const Partition& partition, config::Recompute recompute) {
  if (recompute != config::Recompute::full) return;
  for (int64_t number = 0; number < partition.last(); ++number) {
    if (partition.segment(number).layer >= 0) return;
  }
  throw UserError(
      "train.recompute = \"full\" repeats whole layers, but all layers of this model are computed in one piece with "
      "the "
      "loss, whose backward follows at once; use \"none\"");
}

StageSegments stage_segments(const Partition& partition, const Placement& placement, int64_t stage) {
  StageSegments all{.chunks = {},
                    .last = partition.last(),
                    .reads = std::vector<std::vector<int64_t>>(partition.segments.size()),
                    .held = {},
                    .copies = {}};
  std::set<int64_t> computed, read;
  for (int64_t chunk = 0; chunk < placement.chunks; ++chunk) {
    const NumberRange& own = partition.virtual_stage(placement.virtual_stage(stage, chunk));
    std::vector<int64_t>& list = all.chunks.emplace_back();
    for (int64_t segment = own.begin; segment < own.end; ++segment) {
      list.push_back(segment);
      computed.insert(segment);
      all.reads[static_cast<size_t>(segment)] = partition.segment(segment).reads;
      read.insert(partition.segment(segment).reads.begin(), partition.segment(segment).reads.end());
    }
  }
  for (const int64_t segment : read) {
    if (!partition.segment(segment).has_parameters) continue;
    all.held.push_back(segment);
    if (!computed.contains(segment)) all.copies.push_back(segment);
  }
  return all;
}

std::vector<UnitParameter> segment_parameters(const UnitTable& table, const Segment& segment) {
  std::vector<UnitParameter> list;
  for (int64_t unit = segment.units.begin; unit < segment.units.end; ++unit) {
    const std::vector<UnitParameter>& own = table.at(static_cast<size_t>(unit)).parameters;
    list.insert(list.end(), own.begin(), own.end());
  }
  return list;
}

int64_t kept_bytes(const UnitTable& table, const Segment& segment, config::Recompute recompute) {
  const auto mode = static_cast<size_t>(recompute);
  const auto kept = [&](int64_t unit) { return table.at(static_cast<size_t>(unit)).kept_bytes[mode]; };
  if (recompute == config::Recompute::full && segment.layer >= 0) return kept(segment.units.begin);
  int64_t sum = 0;
  for (int64_t unit = segment.units.begin; unit < segment.units.end; ++unit) sum += kept(unit);
  return sum;
}

int64_t deferred_bytes(const UnitTable& table, const Segment& segment) {
  int64_t sum = 0;
  for (int64_t unit = segment.units.begin; unit < segment.units.end; ++unit) {
    sum += table.at(static_cast<size_t>(unit)).deferred_bytes;
  }
  return sum;
}

}  // namespace terrace::schedule
