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
                                       .gradient_bytes = config::element_bytes(config.train.gradient_type),
                                       .on_gpu = config.train.device == "cuda"});
}

// The sizes of the parameters for which `counts` is true, given whether they are always fp32.
PlannedTable::Sizes sizes_of(const schedule::UnitTable& rows, int64_t tensor_ranks, bool (*counts)(bool)) {
  PlannedTable::Sizes sizes;
  const config::LayoutConfig plain;
  config::LayoutConfig quantized;
  quantized.gather_type = config::WireType::int8;
  for (const schedule::UnitRow& row : rows) {
    const auto sum = [&](int64_t alignment) {
      int64_t total = 0;
      for (const schedule::UnitParameter& parameter : row.parameters) {
        if (!counts(parameter.always_fp32)) continue;
        total += mesh::padded_size(schedule::elements_on_rank(parameter.mark, tensor_ranks), 1, alignment);
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

PlannedTable::PlannedTable(schedule::UnitTable table, int64_t tensor_ranks, schedule::UnitTable of_largest)
    : rows(std::move(table)), largest_rows(std::move(of_largest)) {
  all = sizes_of(rows, tensor_ranks, [](bool) { return true; });
  const auto has_fp32 = [](const schedule::UnitRow& row) {
    return std::ranges::any_of(row.parameters, [](const auto& parameter) { return parameter.always_fp32; });
  };
  if (std::ranges::none_of(rows, has_fp32)) return;
  always_fp32 = sizes_of(rows, tensor_ranks, [](bool is_fp32) { return is_fp32; });
  others = sizes_of(rows, tensor_ranks, [](bool is_fp32) { return !is_fp32; });
}

PlannedTable planned_table(const config::Config& config, const schedule::MicroBatchSizes& micro_batch) {
  const bool is_one_size = micro_batch.average == micro_batch.largest;
  return {table_of(config, micro_batch.average), config.layout.tensor,
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

int64_t PlannedRun::padded(const PlannedTable::Sizes& of, int64_t segment) const {
  const bool in_blocks = config::quantizes(config.layout);
  return mesh::padded_size(sum(in_blocks ? of.aligned_to_blocks : of.aligned, segment), sizes.ranks,
                           mesh::piece_elements);
}

bool PlannedRun::has_two_types() const {
  return table_->always_fp32.has_value() && config.train.precision != config::Precision::fp32;
}

int64_t PlannedRun::elements(int64_t segment) const { return sum(table_->all.elements, segment); }

int64_t PlannedRun::fp32_elements(int64_t segment) const {
  return has_two_types() ? sum(table_->always_fp32->elements, segment) : 0;
}

int64_t PlannedRun::padded_elements(int64_t segment) const {
  const PlannedTable& of = *table_;
  return has_two_types() ? padded(of.others, segment) + padded(*of.always_fp32, segment) : padded(of.all, segment);
}

int64_t PlannedRun::padded_fp32_elements(int64_t segment) const {
  return has_two_types() ? padded(*table_->always_fp32, segment) : 0;
}

int64_t PlannedRun::weight_bytes(int64_t segment) const {
  const int64_t fp32 = padded_fp32_elements(segment);
  return (padded_elements(segment) - fp32) * config::element_bytes(config.train.precision) + 4 * fp32;
}

int64_t PlannedRun::stage_padded_elements(int64_t stage) const {
  int64_t sum = 0;
  for (const int64_t segment : stages.at(static_cast<size_t>(stage)).held) sum += padded_elements(segment);
  return sum;
}

int64_t PlannedRun::stage_elements(int64_t stage) const {
  int64_t sum = 0;
  for (const int64_t segment : stages.at(static_cast<size_t>(stage)).held) sum += elements(segment);
  return sum;
}

int64_t PlannedRun::stage_fp32_elements(int64_t stage) const {
  int64_t sum = 0;
  for (const int64_t segment : stages.at(static_cast<size_t>(stage)).held) sum += fp32_elements(segment);
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
