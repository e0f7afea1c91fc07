// Counts each kind of layer, and heads.
#include "terrace/models/gnn/cost/layers.h"

#include <fmt/format.h>

namespace terrace::models::gnn {
namespace {

// Batch norm sums rows, sums squares of deviations, which it keeps in the place of its input, and scales them.
void count_norm(UnitCounter& unit, NormKind kind, const std::string& name, int64_t width) {
  if (kind == NormKind::none) return;
  unit.parameter(name + ".weight", {width});
  unit.parameter(name + ".bias", {width});
  if (kind == NormKind::layer) return unit.elements("norm", Rows::atoms, width, 1, 1, 1);
  unit.buffer(name + ".running_mean", {width});
  unit.buffer(name + ".running_variance", {width});
  unit.elements("batch norm", Rows::atoms, width, 10, 6, 1);  // 7 and 5 in forward, 14 and 7 in backward
}

void count_activation(UnitCounter& unit, Rows rows, int64_t columns) {
  unit.elements("activation", rows, columns, 1, 1, 1);
}

void count_two_layers(UnitCounter& unit, const std::string& name, Rows rows, int64_t inputs, int64_t hidden,
                      int64_t outputs, Input input = Input::both) {
  unit.linear(name + ".first", rows, inputs, hidden, true, input);
  count_activation(unit, rows, hidden);
  unit.linear(name + ".second", rows, hidden, outputs);
}

void count_edge_linear(UnitCounter& unit, const std::string& name, int64_t inputs, int64_t features, int64_t outputs,
                       Input of_features = Input::vectors) {
  unit.linear(name + ".receiver", Rows::atoms, inputs, outputs, true, Input::states);
  unit.linear(name + ".sender", Rows::atoms, inputs, outputs, false, Input::states);
  unit.gather(Rows::edges, outputs);
  unit.gather(Rows::edges, outputs);
  unit.elements("sum", Rows::edges, outputs, 2, 1, 0);
  if (features == 0) return;
  unit.linear(name + ".features", Rows::edges, features, outputs, false, of_features);
  unit.elements("sum", Rows::edges, outputs, 2, 1, 0);
}

// Messages of edges times the cutoff.
void count_cutoff(UnitCounter& unit, const ModelConfig& config, Rows rows, int64_t columns) {
  if (config.cutoff == Cutoff::cosine) unit.elements("cutoff", rows, columns, 1, 1, 1);
}

// The mean of what edges have.
void count_mean(UnitCounter& unit, const ModelConfig& config, int64_t columns) {
  count_cutoff(unit, config, Rows::edges, columns);
  unit.segment_sum(Rows::edges, columns);
}

void count_schnet(UnitCounter& unit, const ModelConfig& config, const std::string& name) {
  const int64_t width = config.width, filters = config.filters;
  unit.linear(name + ".inputs", Rows::atoms, width, filters, false, Input::states);
  count_two_layers(unit, name + ".filter", Rows::factors, config.radial, filters, filters, Input::vectors);
  if (config.filter_step() != 1.0) unit.elements("filter step", Rows::factors, 1, 1, 1, 1);
  count_cutoff(unit, config, Rows::factors, filters);
  unit.message_sum(filters, filters);
  unit.linear(name + ".sums", Rows::atoms, filters, width);
  if (config.reading == Reading::hydragnn) return;
  count_activation(unit, Rows::atoms, width);
  unit.linear(name + ".output", Rows::atoms, width, width);
  unit.elements("sum", Rows::atoms, width, 2, 1, 0);
}

void count_painn(UnitCounter& unit, const ModelConfig& config, const std::string& name, bool first, bool last) {
  const int64_t width = config.width, messages = (first ? 2 : 3) * width, updates = (last ? 2 : 3) * width;
  unit.linear(name + ".context.first", Rows::atoms, width, width, true, Input::states);
  count_activation(unit, Rows::atoms, width);
  unit.linear(name + ".context.second", Rows::atoms, width, messages, true, Input::states);
  unit.scaled_linear(name + ".filter", Rows::factors, config.radial, messages, Input::vectors);
  unit.message_sum(2 * width, 2 * width);  // of states, and along directions
  if (!first) {
    unit.elements("product", Rows::components, width, 2, 1, 2);
    unit.message_sum(3 * width, 3 * width);
  }
  unit.elements("sum", Rows::atoms, first ? width : 7 * width, 2, 1, 0);
  unit.linear(name + ".mixed", Rows::components, width, 2 * width, false);
  unit.elements("norm of vectors", Rows::components, width, 1, 0, 1);
  if (config.follows_hydragnn()) unit.elements("bound of norms", Rows::atoms, width, 1, 1, 0);
  unit.elements("concatenation", Rows::atoms, 2 * width, 1, 1, 1);
  count_two_layers(unit, name + ".update", Rows::atoms, 2 * width, width, updates);
  unit.elements("product of vectors", Rows::components, width, 2, 0, 2);
  unit.elements("sum", Rows::atoms, width, 4, 1, 2);
  if (!last) unit.elements("update of vectors", Rows::components, width, 3, 1, 1);
  if (config.reading == Reading::paper) return;
  count_two_layers(unit, name + ".ending", Rows::atoms, width, width, width);
  if (!last) unit.linear(name + ".vector_ending", Rows::components, width, width, false);
}

void count_egnn(UnitCounter& unit, const ModelConfig& config, const std::string& name, bool first, bool last) {
  const int64_t width = config.width;
  const bool is_moved = config.equivariance && !first;
  count_edge_linear(unit, name + ".edges", width, 1 + config.edge_columns(), width,
                    is_moved ? Input::both : Input::vectors);
  count_activation(unit, Rows::edges, width);
  unit.linear(name + ".message", Rows::edges, width, width);
  count_activation(unit, Rows::edges, width);
  count_cutoff(unit, config, Rows::edges, width);
  unit.segment_sum(Rows::edges, width);
  unit.linear(name + ".states", Rows::atoms, width, width, true, Input::states);
  unit.linear(name + ".sums", Rows::atoms, width, width, false);
  unit.elements("sum", Rows::atoms, width, 2, 1, 0);
  count_activation(unit, Rows::atoms, width);
  unit.linear(name + ".output", Rows::atoms, width, width);
  if (config.reading == Reading::paper) unit.elements("sum", Rows::atoms, width, 2, 1, 0);
  if (!config.equivariance || last) return;
  unit.linear(name + ".move.hidden", Rows::edges, width, width);
  count_activation(unit, Rows::edges, width);
  unit.linear(name + ".move.output", Rows::edges, width, 1, false);
  unit.elements("move", Rows::edges, 3, 8, 6, 4);
  count_cutoff(unit, config, Rows::edges, 3);
}

void count_pna(UnitCounter& unit, const ModelConfig& config, const std::string& name) {
  const int64_t width = config.width;
  count_edge_linear(unit, name + ".messages", width, config.edge_columns(), width);
  unit.segment_sum(Rows::edges, 4 * width);  // mean, least, largest, and of squares
  unit.gather(Rows::edges, width);
  unit.elements("deviation", Rows::edges, width, 3, 2, 1);
  unit.elements("aggregations", Rows::atoms, 4 * width, 8, 8, 2);
  unit.linear(name + ".output", Rows::atoms, 17 * width, width);
}

void count_gin(UnitCounter& unit, const ModelConfig& config, const std::string& name) {
  unit.parameter(name + ".epsilon", {1});
  unit.segment_sum(Rows::edges, config.width);
  unit.elements("sum", Rows::atoms, config.width, 2, 1, 1);
  count_two_layers(unit, name + ".output", Rows::atoms, config.width, config.width, config.width);
}

void count_gatv2(UnitCounter& unit, const ModelConfig& config, const std::string& name) {
  const int64_t width = config.width, heads = config.heads;
  unit.linear(name + ".receiver", Rows::atoms, width, width, true, Input::states);
  unit.linear(name + ".sender", Rows::atoms, width, width, true, Input::states);
  unit.gather(Rows::edges, 2 * width);
  unit.elements("sum", Rows::edges, width, 2, 1, 0);
  if (config.edge_columns() > 0) {
    unit.linear(name + ".features", Rows::edges, config.edge_columns(), width, false, Input::vectors);
    unit.elements("sum", Rows::edges, width, 2, 1, 0);
    count_mean(unit, config, width);
  }
  unit.parameter(name + ".attention", {heads, width / heads});
  unit.parameter(name + ".bias", {width});
  unit.elements("scores", Rows::edges, width, 2, 2, 2);
  unit.elements("softmax", Rows::edges, heads, 6, 4, 2);
  unit.message_sum(width, heads);
  unit.segment_sum(Rows::edges, heads);
  unit.elements("own scores", Rows::atoms, width, 6, 5, 4);
}

void count_cgcnn(UnitCounter& unit, const ModelConfig& config, const std::string& name) {
  for (const char* part : {".gate", ".core"}) {
    count_edge_linear(unit, name + part, config.width, config.edge_columns(), config.width);
    count_activation(unit, Rows::edges, config.width);
  }
  unit.elements("product", Rows::edges, config.width, 2, 1, 1);  // the gate is what its activation keeps
  count_cutoff(unit, config, Rows::edges, config.width);
  unit.segment_sum(Rows::edges, config.width);
  unit.elements("sum", Rows::atoms, config.width, 2, 1, 0);
}

void count_conv(UnitCounter& unit, const ModelConfig& config, const std::string& name, bool first, bool last) {
  switch (config.conv) {
    case Conv::schnet:
      return count_schnet(unit, config, name);
    case Conv::painn:
      return count_painn(unit, config, name, first, last);
    case Conv::egnn:
      return count_egnn(unit, config, name, first, last);
    case Conv::pna:
      return count_pna(unit, config, name);
    case Conv::gin:
      return count_gin(unit, config, name);
    case Conv::gatv2:
      return count_gatv2(unit, config, name);
    case Conv::cgcnn:
      return count_cgcnn(unit, config, name);
  }
}

void count_dense(UnitCounter& unit, const std::string& name, Rows rows, int64_t inputs, int64_t layers, int64_t width,
                 int64_t outputs, bool is_energy) {
  for (int64_t i = 0; i < layers; ++i) {
    unit.linear(fmt::format("{}.hidden.{}", name, i), rows, i == 0 ? inputs : width, width);
    count_activation(unit, rows, width);
  }
  unit.linear(name + ".output", rows, layers == 0 ? inputs : width, outputs, true, Input::both, is_energy);
}

}  // namespace

void count_geometry(UnitCounter& unit, const ModelConfig& config) {
  unit.elements("lengths", Rows::factors, 3, 6, 3, 3);
  if (config.radial > 0) unit.elements("radial functions", Rows::factors, config.radial, 3, 4, 2);
}

void count_layer(UnitCounter& unit, const ModelConfig& config, NormKind norm, const std::string& name, bool first,
                 bool last) {
  count_conv(unit, config, name + ".conv", first, last);
  count_norm(unit, norm, name + ".norm", config.width);
  count_activation(unit, Rows::atoms, config.width);
}

void count_heads(UnitCounter& unit, const ModelConfig& config, const std::string& name) {
  unit.set_differentiated(false);  // no energy is pooled
  for (int64_t i = 0; i < config.shared_layers; ++i) {
    unit.linear(fmt::format("{}.shared.{}", name, i), Rows::graphs, i == 0 ? config.width : config.shared_width,
                config.shared_width);
    count_activation(unit, Rows::graphs, config.shared_width);
  }
  for (const OutputConfig& output : config.outputs) {
    if (output.is_derivative()) continue;
    const std::string head = name + "." + output.name;
    const bool is_energy = config.is_differentiated(output);
    unit.set_differentiated(is_energy);
    const bool pooled = config.is_pooled(output), conv = output.head == HeadKind::conv;
    for (int64_t i = 0; conv && i < output.layers; ++i) {
      count_layer(unit, config, config.norm_of_heads(), fmt::format("{}.layers.{}", head, i), false,
                  i + 1 == output.layers);
    }
    const int64_t inputs = pooled && config.shared_layers > 0 ? config.shared_width : config.width;
    count_dense(unit, head + ".dense", pooled ? Rows::graphs : Rows::atoms, inputs, conv ? 0 : output.layers,
                output.width, output.head_columns(), is_energy);
  }
}

}  // namespace terrace::models::gnn
