// Makes the unit table of a graph network.
#include "terrace/models/gnn/cost/unit_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "terrace/data/graphs/graphs_request.h"
#include "terrace/data/graphs/graphs_source.h"
#include "terrace/models/gnn/cost/layers.h"
#include "terrace/models/gnn/cost/request.h"
#include "terrace/models/gnn/cost/unit_counter.h"

namespace terrace::models::gnn {
namespace {

using schedule::UnitRow;

const std::vector<std::string> graph_tensors = {"receivers",  "senders",    "first_edge", "sender_order",
                                                "first_sent", "first_atom", "graphs",     "vectors"};

// What every unit reads of the batch.
std::vector<std::string> topology_of(const ModelConfig& config) {
  std::vector<std::string> names = graph_tensors;
  if (config.computes_pairs()) names.insert(names.end(), {"pairs", "first_edges"});
  return names;
}

// What every layer of a level reads of the batch.
std::vector<std::string> tensors_of_layers(const ModelConfig& config, int64_t level) {
  std::vector<std::string> names = topology_of(config);
  if (!config.edge_features.empty()) names.emplace_back("edge_features");
  for (std::string& name : names) name = data::level_tensor(level, name);
  if (config.conv == Conv::pna) names.emplace_back("degree_means");
  return names;
}

// Which nodes of the level below are a node of the level.
void add_members(int64_t level, std::vector<std::string>& names) {
  for (const char* name : {"clusters", "members", "first_member"}) names.push_back(data::level_tensor(level, name));
}

std::vector<std::string> tensors_of_head(const ModelConfig& config) {
  std::vector<std::string> names = tensors_of_layers(config, 0);
  const int64_t levels = config.coarse_levels();
  if (levels > 0 && config.has_pooled_heads()) {
    for (const std::string& name : topology_of(config)) names.push_back(data::level_tensor(levels, name));
  }
  for (int64_t level = 1; config.keeps_finer_states() && level <= levels; ++level) add_members(level, names);
  if (config.branches > 0) names.emplace_back("branches");
  for (const OutputConfig& output : config.outputs) {
    for (const char* kind : {"targets.", "offsets.", "scales.", "labelled."}) names.push_back(kind + output.name);
    const bool is_stress = output.is_derivative() && output.derivative == Derivative::stress;
    if (is_stress && std::ranges::find(names, "volumes") == names.end()) names.emplace_back("volumes");
  }
  return names;
}

UnitRow embedding_row(const ModelConfig& config, const schedule::UnitTableOptions& options) {
  UnitRow row{.name = "embedding", .batch_tensors = topology_of(config)};
  row.batch_tensors.emplace_back("species");
  UnitCounter unit(row, options, config, true);
  unit.parameter("embedding.elements.weight", {element_rows, config.width});
  unit.gather(Rows::atoms, config.width);
  if (!config.atom_features.empty()) {
    row.batch_tensors.emplace_back("atom_features");
    unit.linear("embedding.atom_features", Rows::atoms, config.num_atom_features(), config.width, false, Input::data);
  }
  if (!config.charge.empty()) {
    row.batch_tensors.emplace_back("charges");
    unit.linear("embedding.charge", Rows::atoms, 1, config.width, false, Input::data);
  }
  unit.output(Rows::atoms, config.width);
  return row;
}

// The means of the states of each cluster.
void count_pool(UnitCounter& unit, const ModelConfig& config, int64_t level) {
  unit.set_level(level - 1);
  unit.segment_sum(Rows::atoms, config.width);
  if (!config.keeps_finer_states()) unit.keep(Rows::atoms, config.width);  // the unit's input
  unit.set_level(level);
  unit.elements("mean", Rows::atoms, config.width, 1, 1, 0);
}

// States of the last level, brought back to the atoms.
void count_unpools(UnitCounter& unit, const ModelConfig& config) {
  for (int64_t level = 0; level < config.coarse_levels(); ++level) {
    unit.set_level(level + 1);
    unit.linear(fmt::format("unpool.{}", level), Rows::atoms, config.width, config.width);
    unit.set_level(level);
    unit.gather(Rows::atoms, config.width);
    unit.elements("sum", Rows::atoms, config.width, 2, 1, 0);
  }
}

// What passes to the next layer: the states, beside them vectors, moved vectors, and states of finer levels. Those are
// counted as kept by each unit that passes them on, although the units of one stage share them, since the first unit of
// a stage that receives them may be any.
void count_outputs(UnitCounter& unit, const ModelConfig& config, int64_t level, bool last) {
  for (int64_t finer = 0; config.keeps_finer_states() && finer < level; ++finer) {
    unit.set_level(finer);
    unit.output(Rows::atoms, config.width);
    unit.keep(Rows::atoms, config.width);
  }
  unit.set_level(level);
  unit.output(Rows::atoms, config.width);
  if (config.conv == Conv::painn && !last) unit.output(Rows::components, config.width);
  if (config.conv == Conv::egnn && config.equivariance && !last) unit.output(Rows::edges, 3);
}

// With recompute a segment keeps the input of its first unit.
void keep_input(UnitRow& row, const UnitRow& before) {
  row.kept_bytes[static_cast<size_t>(config::Recompute::full)] = before.output_bytes;
}

}  // namespace

schedule::UnitTable unit_table(const ModelConfig& config, const schedule::UnitTableOptions& options) {
  schedule::UnitTable table = {embedding_row(config, options)};
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const int64_t level = config.level_of(layer);
    UnitRow row{
        .name = fmt::format("layers.{}", layer), .layer = layer, .batch_tensors = tensors_of_layers(config, level)};
    UnitCounter unit(row, options, config, layer == 0);
    if (layer > 0 && level > config.level_of(layer - 1)) {
      add_members(level, row.batch_tensors);
      count_pool(unit, config, level);
    }
    unit.set_level(level);
    count_geometry(unit, config);
    count_layer(unit, config, config.norm, row.name, layer == 0, config.is_last(layer));
    count_outputs(unit, config, level, config.is_last(layer));
    keep_input(row, table.back());
    table.push_back(std::move(row));
  }
  UnitRow row{.name = "head", .batch_tensors = tensors_of_head(config)};
  UnitCounter unit(row, options, config, false);
  if (config.has_conv_heads()) count_geometry(unit, config);
  if (config.has_pooled_heads()) {
    unit.set_level(config.coarse_levels());
    unit.segment_sum(Rows::atoms, config.width);
  }
  if (config.keeps_finer_states()) count_unpools(unit, config);
  unit.set_level(0);
  for (int64_t branch = 0; branch < config.head_copies(); ++branch) {
    count_heads(unit, config, config.branches == 0 ? "head" : fmt::format("head.{}", branch));
  }
  row.kept_bytes = {};
  row.output_bytes = 0;
  table.push_back(std::move(row));
  return table;
}

schedule::UnitTable GnnDescription::unit_table(const config::Config& config,
                                               const schedule::UnitTableOptions& options) const {
  return gnn::unit_table(model_of(config), options);
}

schedule::SampleSizes GnnDescription::sample_sizes(const config::Config& config) const {
  const data::GraphSizes sizes = data::sizes_of_graphs(data_of(config), graphs_request(model_of(config)));
  return {.average = {{"atoms", sizes.average_atoms}, {"edges", sizes.average_edges}},
          .largest = {{"atoms", sizes.most_atoms}, {"edges", sizes.most_edges}}};
}

std::string GnnDescription::why_one_micro_batch(const config::Config& config) const {
  if (!model_of(config).has_batch_norm()) return "";
  if (model_of(config).norm != NormKind::batch) {
    return "the batch norm of conv heads with model.reading = \"hydragnn\" (model.norm = \"layer\" has none) takes its "
           "statistics over one micro-batch of all ranks together";
  }
  return "model.norm = \"batch\" takes its statistics over one micro-batch of all ranks together";
}

}  // namespace terrace::models::gnn
