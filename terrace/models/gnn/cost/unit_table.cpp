// Traces the units of a graph network.
#include "terrace/models/gnn/cost/unit_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "terrace/data/graphs/graphs_request.h"
#include "terrace/data/graphs/graphs_source.h"
#include "terrace/layers/unit_trace.h"
#include "terrace/models/gnn/cost/graph_rows.h"
#include "terrace/models/gnn/cost/layers.h"
#include "terrace/models/gnn/cost/request.h"

namespace terrace::models::gnn {
namespace {

using layers::UnitTrace;
using layers::Value;
using schedule::UnitRow;

const std::vector<std::string> graph_tensors = {"receivers",  "senders",    "first_edge", "sender_order",
                                                "first_sent", "first_atom", "graphs",     "vectors"};

// The tensors of the batch that every unit reads.
std::vector<std::string> topology_of(const ModelConfig& config) {
  std::vector<std::string> names = graph_tensors;
  if (config.computes_pairs()) names.insert(names.end(), {"pairs", "first_edges"});
  return names;
}

// The tensors of the batch that every layer of a level reads.
std::vector<std::string> tensors_of_layers(const ModelConfig& config, int64_t level) {
  std::vector<std::string> names = topology_of(config);
  if (!config.edge_features.empty()) names.emplace_back("edge_features");
  for (std::string& name : names) name = data::level_tensor(level, name);
  if (config.conv == Conv::pna) names.emplace_back("degree_means");
  return names;
}

// Adds the tensors that say which nodes of the level below make up a node of the level.
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

UnitTrace trace_of(const ModelConfig& config, const schedule::UnitTableOptions& options, const std::string& name,
                   int64_t layer) {
  UnitTrace unit(options, {.name = name,
                           .layer = layer,
                           .differentiates = config.has_derivatives(),
                           .defers = false,
                           .counts_executed = true,
                           .passes_fp32 = true});
  unit.row().shares_graph = config.has_derivatives();
  unit.set_temporary(0);  // not counted
  return unit;
}

UnitRow embedding(const ModelConfig& config, const schedule::UnitTableOptions& options) {
  UnitTrace unit = trace_of(config, options, "embedding", -1);
  const GraphRows rows = graph_rows(config, options, 0);
  const int64_t width = config.width;
  std::vector<std::string>& tensors = unit.row().batch_tensors;
  tensors = topology_of(config);
  tensors.emplace_back("species");
  unit.parameter("embedding.elements.weight", ParamMark::replicated({element_rows, width}));
  const Value x = unit.gathered(unit.made(element_rows, width, width), rows.atoms);
  if (!config.atom_features.empty()) {
    tensors.emplace_back("atom_features");
    unit.linear("embedding.atom_features", unit.data(rows.atoms, config.num_atom_features()), width, {.bias = false});
  }
  if (!config.charge.empty()) {
    tensors.emplace_back("charges");
    unit.linear("embedding.charge", unit.data(rows.atoms, 1), width, {.bias = false});
  }
  unit.output(x);
  return unit.finished();
}

// The tensors that pass on behind `layer` (-1: behind the embedding): the states, beside them vectors, moved vectors,
// and states of finer levels. The states of finer levels are counted by each unit that passes them on, although the
// units of one stage share them, since the first unit of a stage that receives them may be any.
struct Passed {
  GraphRows rows;
  std::vector<int64_t> finer = {};  // rows of the states of finer levels
  bool vectors = false, moved = false;
};

Passed passed_behind(const ModelConfig& config, const schedule::UnitTableOptions& options, int64_t layer) {
  const int64_t level = config.level_of(std::max<int64_t>(layer, 0));
  Passed passed{.rows = graph_rows(config, options, level)};
  for (int64_t finer = 0; config.keeps_finer_states() && finer < level; ++finer) {
    passed.finer.push_back(graph_rows(config, options, finer).atoms);
  }
  if (layer < 0 || config.is_last(layer)) return passed;
  passed.vectors = config.conv == Conv::painn;
  passed.moved = config.conv == Conv::egnn && config.equivariance;
  return passed;
}

// The states that a unit is given behind `layer`.
Value given_states(UnitTrace& unit, const ModelConfig& config, int64_t layer) {
  const Passed passed = passed_behind(config, unit.options(), layer);
  for (const int64_t atoms : passed.finer) unit.given(atoms, config.width);
  if (passed.vectors) unit.given(passed.rows.components(), config.width);
  if (passed.moved) unit.given(passed.rows.edges, 3);
  Value x = unit.given(passed.rows.atoms, config.width);
  x.on_differentiated = layer >= 0;
  return x;
}

void hand_on(UnitTrace& unit, const ModelConfig& config, int64_t layer) {
  const Passed passed = passed_behind(config, unit.options(), layer);
  const auto output = [&](int64_t rows, int64_t columns) {
    const Value value = unit.made(rows, columns, columns);
    unit.output(value);
    return unit.bytes(value);
  };
  for (const int64_t atoms : passed.finer) unit.keep_with_derivative(output(atoms, config.width));
  output(passed.rows.atoms, config.width);
  if (passed.vectors) output(passed.rows.components(), config.width);
  if (passed.moved) output(passed.rows.edges, 3);
}

UnitRow layer_row(const ModelConfig& config, const schedule::UnitTableOptions& options, int64_t layer) {
  const int64_t level = config.level_of(layer);
  const std::string name = fmt::format("layers.{}", layer);
  UnitTrace unit = trace_of(config, options, name, layer);
  unit.row().batch_tensors = tensors_of_layers(config, level);
  const GraphRows rows = graph_rows(config, options, level);
  Value x = given_states(unit, config, layer - 1);
  if (layer > 0 && level > config.level_of(layer - 1)) {
    // The means of the states of each cluster.
    add_members(level, unit.row().batch_tensors);
    if (!config.keeps_finer_states()) unit.keep_with_derivative(unit.bytes(x));
    x = unit.segment_sum(x, rows.atoms);
    x = unit.elements("mean", x, config.width, {1, 1, 0});
  }
  const Value radial = radial_values(unit, rows, config);
  trace_layer(unit, rows, config,
              {.name = name, .norm = config.norm, .first = layer == 0, .last = config.is_last(layer)}, x, radial);
  hand_on(unit, config, layer);
  return unit.finished();
}

UnitRow head(const ModelConfig& config, const schedule::UnitTableOptions& options) {
  UnitTrace unit = trace_of(config, options, "head", -1);
  unit.row().batch_tensors = tensors_of_head(config);
  const GraphRows rows = graph_rows(config, options, 0);
  const int64_t levels = config.coarse_levels(), width = config.width;
  Value x = given_states(unit, config, config.layers - 1), graphs = x;
  Value radial;
  if (config.has_conv_heads()) radial = radial_values(unit, rows, config);
  if (config.has_pooled_heads()) graphs = unit.segment_sum(x, rows.graphs);
  // States of the last level, brought back to the atoms.
  for (int64_t level = 0; config.keeps_finer_states() && level < levels; ++level) {
    Value coarse = x;
    coarse.rows = graph_rows(config, options, level + 1).atoms;
    const Value finer = unit.gathered(unit.linear(fmt::format("unpool.{}", level), coarse, width, {}),
                                      graph_rows(config, options, level).atoms);
    unit.elements("sum", finer, width, {2, 1, 0});
  }
  x.rows = rows.atoms;
  graphs.rows = rows.graphs;
  for (int64_t branch = 0; branch < config.head_copies(); ++branch) {
    trace_heads(unit, rows, config, config.branches == 0 ? "head" : fmt::format("head.{}", branch), x, graphs, radial);
  }
  unit.set_last();
  return unit.finished();
}

}  // namespace

schedule::UnitTable unit_table(const ModelConfig& config, const schedule::UnitTableOptions& options) {
  schedule::UnitTable table = {embedding(config, options)};
  for (int64_t layer = 0; layer < config.layers; ++layer) table.push_back(layer_row(config, options, layer));
  table.push_back(head(config, options));
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

schedule::SampleBytes GnnDescription::sample_bytes(const config::Config& config) const {
  const ModelConfig& model = model_of(config);
  const schedule::SampleSizes sizes = sample_sizes(config);
  const double atoms = sizes.average.at("atoms"), edges = sizes.average.at("edges");
  // An atom has its species and position; a structure its source, its number there, its cell and which of the three
  // directions are periodic.
  double bytes = (1 + 3 * 8) * atoms + 4 + 8 + 9 * 8 + 3;
  if (graphs_request(model).given_edges) bytes += 2 * 4 * edges;
  for (const OutputConfig& output : model.outputs) {
    bytes += 8 * static_cast<double>(output.label_columns()) * (output.of_atoms() ? atoms : 1);
  }
  return {.inputs = bytes, .loss = bytes, .both = bytes};
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
