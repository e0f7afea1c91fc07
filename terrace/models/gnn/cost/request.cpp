// Makes the request from the keys, and the cost of graphs from the unit table.
#include "terrace/models/gnn/cost/request.h"

#include "terrace/models/gnn/cost/unit_table.h"

namespace terrace::models::gnn {
namespace {

constexpr double flops_per_byte = 8;

std::vector<std::string> names_of(const Sizes& sizes) {
  std::vector<std::string> names;
  for (const auto& [name, columns] : sizes) names.push_back(name);
  return names;
}

data::LabelOffset offset_of(const OutputConfig& output) {
  if (output.is_derivative() || output.offset == Offset::none) return data::LabelOffset::none;
  return output.offset == Offset::elements ? data::LabelOffset::elements : data::LabelOffset::mean;
}

// An energy and its derivatives have one scale, so that the normalised derivative is that of the normalised energy:
// that of the forces, and where there are none that of the energy.
std::string scaled_as(const ModelConfig& config, const OutputConfig& output) {
  const std::string& energy = output.is_derivative() ? output.derivative_of : output.name;
  for (const OutputConfig& other : config.outputs) {
    const bool are_forces = other.derivative_of == energy && other.derivative == Derivative::forces;
    if (are_forces) return other.name == output.name ? "" : other.name;
  }
  return output.is_derivative() ? energy : "";
}

double time_of(const ModelConfig& config, int64_t graphs, int64_t atoms, int64_t edges) {
  double time = 0;
  for (const schedule::UnitRow& row :
       unit_table(config, {.samples = graphs, .sizes = {{"atoms", atoms}, {"edges", edges}}})) {
    for (const auto* list :
         {&row.operations.forward, &row.operations.input_gradient, &row.operations.weight_gradient}) {
      for (const schedule::Operation& operation : *list) time += operation.flops() + flops_per_byte * operation.bytes;
    }
  }
  return time;
}

}  // namespace

// All is linear in the three numbers but what a step does once, such as adding to the gradients of weights.
data::GraphCost graph_cost(const ModelConfig& config) {
  const double once = time_of(config, 0, 0, 0);
  constexpr int64_t many = 1000;
  const auto of_one = [&](double time) { return (time - once) / static_cast<double>(many); };
  return {.graph = of_one(time_of(config, many, 0, 0)),
          .atom = of_one(time_of(config, 0, many, 0)),
          .edge = of_one(time_of(config, 0, 0, many))};
}

data::GraphsRequest graphs_request(const ModelConfig& config) {
  data::GraphsRequest request{.radius = config.radius,
                              .max_neighbours = config.max_neighbours,
                              .given_edges = config.edges == Edges::given,
                              .atom_features = names_of(config.atom_features),
                              .edge_features = names_of(config.edge_features),
                              .charge = config.charge,
                              .cost = graph_cost(config),
                              .coarse_levels = config.coarse_levels()};
  for (const OutputConfig& output : config.outputs) {
    const data::GraphLevel level = output.of_atoms() ? data::GraphLevel::atom : data::GraphLevel::structure;
    request.labels.push_back({.name = output.name,
                              .property = output.label,
                              .level = level,
                              .width = output.label_columns(),
                              .offset = offset_of(output),
                              .scaled_as = scaled_as(config, output),
                              .per_atom = !output.of_atoms() && (output.per_atom || output.is_atomwise()),
                              .derivative_of = output.derivative_of,
                              .is_stress = output.is_derivative() && output.derivative == Derivative::stress});
    request.counts.push_back(
        {.level = level, .times = static_cast<double>(output.label_columns()), .label = output.name});
  }
  const std::vector<data::GraphsRequest::Count> of_outputs = request.counts;
  request.counts.insert(request.counts.end(), of_outputs.begin(), of_outputs.end());
  return request;
}

}  // namespace terrace::models::gnn
