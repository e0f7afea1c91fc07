// Derives the parts of a run from its configuration.
#include "terrace/plan/planned_run.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "terrace/config/family.h"
#include "terrace/config/wire_type.h"
#include "terrace/schedule/description.h"

namespace terrace::plan {

namespace {

schedule::UnitTable table_of(const config::Config& config, const schedule::MicroBatchSize& micro_batch) {
  return schedule::unit_table(config, {.samples = micro_batch.samples,
                                       .sizes = micro_batch.sizes,
                                       .element_bytes = config::element_bytes(config.train.precision),
                                       .tensor_ranks = config.layout.tensor,
                                       .sequence_parallel = config.layout.sequence_parallel,
                                       .context_ranks = config.layout.context,
                                       .context_route = schedule::context_route(config),
                                       .expert_ranks = config.layout.experts,
                                       .gradient_bytes = config::element_bytes(config.train.gradient_type),
                                       .on_gpu = config.train.device == "cuda"});
}

enum class Part { dense, always_fp32, experts };

// The part of the flat buffers that the parameter belongs to.
Part part_of(const schedule::UnitParameter& parameter, const config::LayoutConfig& layout) {
  if (parameter.mark.of_experts && layout.experts > 1) return Part::experts;
  return parameter.always_fp32 ? Part::always_fp32 : Part::dense;
}

PlannedTable::Sizes sizes_of(const schedule::UnitTable& rows, const config::LayoutConfig& layout, Part part) {
  PlannedTable::Sizes sizes;
  const config::LayoutConfig plain;
  config::LayoutConfig quantized;
  quantized.gather_type = config::WireType::int8;
  for (const schedule::UnitRow& row : rows) {
    const auto sum = [&](int64_t alignment) {
      int64_t total = 0;
      for (const schedule::UnitParameter& parameter : row.parameters) {
        if (part_of(parameter, layout) != part) continue;
        total +=
            mesh::padded_size(schedule::elements_on_rank(parameter.mark, layout.tensor, layout.experts), 1, alignment);
      }
      return total;
    };
    sizes.elements.push_back(sum(1));
    sizes.aligned.push_back(sum(mesh::parameter_alignment(plain)));
    sizes.aligned_to_blocks.push_back(sum(mesh::parameter_alignment(quantized)));
  }
  return sizes;
}

// Fills in the parts that are not shared with other layouts.
const SharedParts& completed(const config::Config& config, int64_t data_ranks, SharedParts& parts) {
  if (!parts.table) {
    parts.table =
        std::make_shared<const PlannedTable>(planned_table(config, schedule::micro_batch_sizes_of(config, data_ranks)));
  }
  if (!parts.partition) {
    parts.partition = std::make_shared<const schedule::Partition>(planned_partition(config, *parts.table));
  }
  return parts;
}

}  // namespace

PlannedTable::PlannedTable(schedule::UnitTable table, const config::LayoutConfig& layout,
                           schedule::UnitTable of_largest)
    : rows(std::move(table)), largest_rows(std::move(of_largest)) {
  dense = sizes_of(rows, layout, Part::dense);
  const auto has = [&](Part part) {
    return std::ranges::any_of(rows, [&](const schedule::UnitRow& row) {
      return std::ranges::any_of(row.parameters, [&](const auto& one) { return part_of(one, layout) == part; });
    });
  };
  if (has(Part::always_fp32)) always_fp32 = sizes_of(rows, layout, Part::always_fp32);
  if (has(Part::experts)) experts = sizes_of(rows, layout, Part::experts);
}

PlannedTable planned_table(const config::Config& config, const schedule::MicroBatchSizes& micro_batch) {
  const bool is_one_size = micro_batch.average == micro_batch.largest;
  return {table_of(config, micro_batch.average), config.layout,
          is_one_size ? schedule::UnitTable{} : table_of(config, micro_batch.largest)};
}

schedule::Partition planned_partition(const config::Config& config, const PlannedTable& table) {
  const bool is_one_size = config.family->settings.sizes.empty();
  return schedule::partition(is_one_size ? table.rows : schedule::unit_table(config), config.layout);
}

config::Config divided(config::Config config, const machine::Software& software) {
  config::LayoutConfig& layout = config.layout;
  const int64_t virtual_stages = layout.pipeline * layout.chunks, layers = config.family->settings.layers(config);
  if (software.stages_by_layers && layout.stage_layers.empty() && layers % virtual_stages == 0) {
    layout.stage_layers.assign(static_cast<size_t>(virtual_stages), layers / virtual_stages);
  }
  return config;
}

PlannedRun::PlannedRun(const config::Config& of, int64_t ranks, int64_t ranks_per_node, SharedParts parts)
    : PlannedRun(of, schedule::mesh_of(of.layout, ranks, ranks_per_node), std::move(parts)) {}

PlannedRun::PlannedRun(const config::Config& of, const mesh::Mesh& on, SharedParts parts)
    : ResolvedLayout(of.layout, on, completed(of, on.size("data"), parts).partition),
      config(of),
      pipeline(schedule::pipeline_of(of, on.size("data"))),
      table_(std::move(parts.table)),
      recompute_(schedule::segment_recompute(partition(), placement, config)) {
  schedule::check_recompute(partition(), of.train.recompute);
  cut_positions(of);
}

void PlannedRun::take_recompute_layers(config::RecomputeLayers layers) {
  config.layout.recompute_layers = std::move(layers);
  recompute_ = schedule::segment_recompute(partition(), placement, config);
}

int64_t PlannedRun::recomputable_layers(int64_t stage) const {
  return std::ssize(schedule::recomputable_segments(partition(), placement, stage));
}

int64_t PlannedRun::recomputed_layers(int64_t stage) const {
  return std::ranges::count_if(schedule::recomputable_segments(partition(), placement, stage),
                               [&](int64_t segment) { return recompute_of(segment) != config::Recompute::none; });
}

bool PlannedRun::recomputes_partly(int64_t stage) const {
  const int64_t recomputed = recomputed_layers(stage);
  return recomputed > 0 && recomputed < recomputable_layers(stage);
}

void PlannedRun::take_route(config::Routing route) {
  config.layout.route = route;
  const bool changes_numbers = route == config::Routing::rails || sizes.rails_node > 1;
  if (changes_numbers) sizes = mesh::shard_sizes(config.layout, mesh);
}

void PlannedRun::take_context_route(config::ContextRoute route) {
  if (route == context_route) {
    config.layout.context_route = route;
    return;
  }
  config::Config with_route = config;
  with_route.layout.context_route = route;
  *this = PlannedRun(with_route, mesh.size(), mesh.topology().ranks_per_node);
}

int64_t PlannedRun::sum(const std::vector<int64_t>& by_unit, int64_t segment) const {
  const auto& [begin, end] = partition().segment(segment).units;
  return std::accumulate(by_unit.begin() + begin, by_unit.begin() + end, int64_t{0});
}

int64_t PlannedRun::padded(const PlannedTable::Sizes& of, int64_t segment, int64_t ranks) const {
  const bool in_blocks = config::quantizes(config.layout);
  return mesh::padded_size(sum(in_blocks ? of.aligned_to_blocks : of.aligned, segment), ranks, mesh::piece_elements);
}

bool PlannedRun::has_two_types() const {
  return table_->always_fp32.has_value() && config.train.precision != config::Precision::fp32;
}

PlannedFlats PlannedRun::flats(int64_t segment) const {
  const PlannedTable& of = *table_;
  const config::Precision precision = config.train.precision;
  PlannedFlats flats;
  const auto add = [&](const PlannedTable::Sizes& sizes, int64_t ranks, config::Precision type, bool of_experts) {
    flats.add({.elements = sum(sizes.elements, segment),
               .padded = padded(sizes, segment, ranks),
               .precision = type,
               .of_experts = of_experts});
  };
  if (!of.always_fp32) {
    add(of.dense, sizes.ranks, precision, false);
  } else if (has_two_types()) {
    add(of.dense, sizes.ranks, precision, false);
    add(*of.always_fp32, sizes.ranks, config::Precision::fp32, false);
  } else {
    // One flat buffer has both.
    const bool in_blocks = config::quantizes(config.layout);
    const auto aligned = [&](const PlannedTable::Sizes& part) {
      return sum(in_blocks ? part.aligned_to_blocks : part.aligned, segment);
    };
    flats.add(
        {.elements = sum(of.dense.elements, segment) + sum(of.always_fp32->elements, segment),
         .padded = mesh::padded_size(aligned(of.dense) + aligned(*of.always_fp32), sizes.ranks, mesh::piece_elements),
         .precision = precision});
  }
  if (of.experts) add(*of.experts, expert_sizes->ranks, precision, true);
  return flats;
}

int64_t PlannedRun::elements(int64_t segment) const {
  int64_t all = 0;
  for (const PlannedFlat& flat : flats(segment)) all += flat.elements;
  return all;
}

int64_t PlannedRun::padded_elements(int64_t segment) const {
  int64_t all = 0;
  for (const PlannedFlat& flat : flats(segment)) all += flat.padded;
  return all;
}

int64_t PlannedRun::weight_bytes(int64_t segment) const {
  int64_t bytes = 0;
  for (const PlannedFlat& flat : flats(segment)) bytes += flat.padded * config::element_bytes(flat.precision);
  return bytes;
}

int64_t PlannedRun::gathered_bytes(int64_t segment) const {
  int64_t bytes = 0;
  for (const PlannedFlat& flat : flats(segment)) {
    if (sizes_of(flat).weights > 1) bytes += flat.padded * config::element_bytes(flat.precision);
  }
  return bytes;
}

int64_t PlannedRun::reduced_bytes(int64_t segment) const {
  int64_t elements = 0;
  for (const PlannedFlat& flat : flats(segment)) {
    if (sizes_of(flat).gradients > 1) elements += flat.padded;
  }
  return elements * config::element_bytes(config.train.gradient_type);
}

int64_t PlannedRun::stage_elements(int64_t stage) const {
  int64_t sum = 0;
  for (const int64_t segment : stages.at(static_cast<size_t>(stage)).held) sum += elements(segment);
  return sum;
}

int64_t PlannedRun::buffer_bytes(int64_t stage) const {
  int64_t sum = 0;
  for (const std::vector<int64_t>& segments : stages.at(static_cast<size_t>(stage)).chunks) {
    for (const int64_t number : segments) {
      const auto& [begin, end] = partition().segment(number).units;
      for (int64_t unit = begin; unit < end; ++unit) sum += schedule::buffer_bytes(table()[static_cast<size_t>(unit)]);
    }
  }
  return sum;
}

const std::vector<int64_t>& PlannedRun::chunk(int64_t stage, int64_t chunk) const {
  return stages.at(static_cast<size_t>(stage)).chunks.at(static_cast<size_t>(chunk));
}

}  // namespace terrace::plan
