// Traces each kind of layer, and heads.
#include "terrace/models/gnn/cost/layers.h"

#include <fmt/format.h>

namespace terrace::models::gnn {
namespace {

using layers::depending_on;
using layers::UnitTrace;
using layers::Value;

Value activated(UnitTrace& unit, const Value& x) { return unit.elements("activation", x, x.columns, {1, 1, 1}); }

Value added(UnitTrace& unit, const Value& x, const Value& y) {
  return unit.elements("sum", depending_on(x, y), x.columns, {2, 1, 0});
}

Value two_layers(UnitTrace& unit, const std::string& name, const Value& x, int64_t hidden, int64_t outputs) {
  return unit.linear(name + ".second", activated(unit, unit.linear(name + ".first", x, hidden, {})), outputs, {});
}

// One conv layer of a unit.
class ConvTrace {
 public:
  ConvTrace(UnitTrace& unit, const GraphRows& rows, const ModelConfig& config, const TracedLayer& layer,
            const Value& radial)
      : unit_(unit), rows_(rows), config_(config), layer_(layer), name_(layer.name + ".conv"), radial_(radial) {}

  Value traced(const Value& x) {
    switch (config_.conv) {
      case Conv::schnet:
        return schnet(x);
      case Conv::painn:
        return painn(x);
      case Conv::egnn:
        return egnn(x);
      case Conv::pna:
        return pna(x);
      case Conv::gin:
        return gin(x);
      case Conv::gatv2:
        return gatv2(x);
      case Conv::cgcnn:
        break;
    }
    return cgcnn(x);
  }

 private:
  Value linear(const char* name, const Value& x, int64_t outputs, bool bias = true) {
    return unit_.linear(name_ + name, x, outputs, {.bias = bias});
  }

  // [rows, columns] of the vectors of edges alone.
  Value of_vectors(int64_t rows, int64_t columns) {
    Value x = unit_.data(rows, columns);
    x.on_differentiated = true;
    return x;
  }

  // Messages of edges times the cutoff.
  Value cut_off(const Value& x) {
    return config_.cutoff == Cutoff::cosine ? unit_.elements("cutoff", x, x.columns, {1, 1, 1}) : x;
  }

  // A linear layer of what both ends of an edge have and of its features.
  Value edge_linear(const std::string& name, const Value& x, const Value& features, int64_t outputs) {
    const Value receivers = unit_.linear(name + ".receiver", x, outputs, {});
    const Value senders = unit_.linear(name + ".sender", x, outputs, {.bias = false});
    const Value sum = added(unit_, unit_.gathered(receivers, rows_.edges), unit_.gathered(senders, rows_.edges));
    if (features.columns == 0) return sum;
    return added(unit_, sum, unit_.linear(name + ".features", features, outputs, {.bias = false}));
  }

  Value schnet(const Value& x) {
    const int64_t filters = config_.filters;
    const Value inputs = linear(".inputs", x, filters, false);
    Value filter = two_layers(unit_, name_ + ".filter", radial_, filters, filters);
    if (config_.filter_step() != 1.0) unit_.elements("filter step", filter, 1, {1, 1, 1});
    filter = cut_off(filter);
    const Value sums = linear(".sums", unit_.message_sum(inputs, filter, rows_.edges), config_.width);
    if (config_.reading == Reading::hydragnn) return sums;
    return added(unit_, x, linear(".output", activated(unit_, sums), config_.width));
  }

  Value painn(const Value& x) {
    const bool first = layer_.first, last = layer_.last;
    const int64_t width = config_.width, messages = (first ? 2 : 3) * width, updates = (last ? 2 : 3) * width;
    const Value context = two_layers(unit_, name_ + ".context", x, width, messages);
    // The radial functions times the cutoff, and the cutoff in a column more, in the place of the bias.
    unit_.parameter(name_ + ".filter.weight", ParamMark::replicated({messages, config_.radial}));
    unit_.parameter(name_ + ".filter.bias", ParamMark::replicated({messages}));
    const Value filter = unit_.product(unit_.part(radial_, config_.radial + 1), messages, {.bias = false});
    // The sums of states, and along directions.
    const Value sums = unit_.message_sum(unit_.part(context, 2 * width), unit_.part(filter, 2 * width), rows_.edges);
    const Value states = unit_.part(sums, width);
    Value vectors = states;
    vectors.rows = rows_.components();
    if (!first) {
      const Value products = unit_.elements("product", vectors, width, {2, 1, 2});
      unit_.message_sum(unit_.part(states, 3 * width), unit_.part(filter, 3 * width), rows_.edges);
      vectors = depending_on(vectors, products);
    }
    unit_.elements("sum", states, first ? width : 7 * width, {2, 1, 0});
    const Value mixed = linear(".mixed", vectors, 2 * width, false);
    unit_.elements("norm of vectors", mixed, width, {1, 0, 1});
    if (config_.follows_hydragnn()) unit_.elements("bound of norms", states, width, {1, 1, 0});
    const Value both = unit_.elements("concatenation", states, 2 * width, {1, 1, 1});
    two_layers(unit_, name_ + ".update", both, width, updates);
    unit_.elements("product of vectors", mixed, width, {2, 0, 2});
    const Value updated = unit_.elements("sum", states, width, {4, 1, 2});
    if (!last) unit_.elements("update of vectors", mixed, width, {3, 1, 1});
    if (config_.reading == Reading::paper) return updated;
    const Value ended = two_layers(unit_, name_ + ".ending", updated, width, width);
    if (!last) linear(".vector_ending", unit_.part(vectors, width), width, false);
    return ended;
  }

  Value egnn(const Value& x) {
    const int64_t width = config_.width;
    Value features = of_vectors(rows_.edges, 1 + config_.edge_columns());
    features.on_parameters = config_.equivariance && !layer_.first;  // of moved atoms
    const Value hidden = activated(unit_, edge_linear(name_ + ".edges", x, features, width));
    const Value messages = cut_off(activated(unit_, linear(".message", hidden, width)));
    const Value states = linear(".states", x, width);
    const Value sums = linear(".sums", unit_.segment_sum(messages, rows_.atoms), width, false);
    Value result = linear(".output", activated(unit_, added(unit_, sums, states)), width);
    if (config_.reading == Reading::paper) result = added(unit_, x, result);
    if (!config_.equivariance || layer_.last) return result;
    linear(".move.output", activated(unit_, linear(".move.hidden", unit_.part(messages, width), width)), 1, false);
    cut_off(unit_.elements("move", messages, 3, {8, 6, 4}));
    return result;
  }

  Value pna(const Value& x) {
    const int64_t width = config_.width;
    const Value messages = edge_linear(name_ + ".messages", x, of_vectors(rows_.edges, config_.edge_columns()), width);
    // Mean, least, largest, and of squares.
    const Value sums = unit_.segment_sum(unit_.part(messages, 4 * width), rows_.atoms);
    unit_.gathered(unit_.part(sums, width), rows_.edges);
    unit_.elements("deviation", messages, width, {3, 2, 1});
    unit_.elements("aggregations", sums, 4 * width, {8, 8, 2});
    return linear(".output", unit_.part(sums, 17 * width), width);
  }

  Value gin(const Value& x) {
    unit_.parameter(name_ + ".epsilon", ParamMark::replicated({1}));
    Value messages = x;
    messages.rows = rows_.edges;
    unit_.segment_sum(messages, rows_.atoms);
    const Value sum = unit_.elements("sum", x, config_.width, {2, 1, 1});
    return two_layers(unit_, name_ + ".output", sum, config_.width, config_.width);
  }

  Value gatv2(const Value& x) {
    const int64_t width = config_.width, heads = config_.heads;
    const Value receivers = linear(".receiver", x, width), senders = linear(".sender", x, width);
    const Value both = unit_.gathered(unit_.part(depending_on(receivers, senders), 2 * width), rows_.edges);
    Value scores = unit_.elements("sum", both, width, {2, 1, 0});
    if (config_.edge_columns() > 0) {
      const Value features = linear(".features", of_vectors(rows_.edges, config_.edge_columns()), width, false);
      scores = cut_off(added(unit_, scores, features));
      unit_.segment_sum(scores, rows_.atoms);  // an atom's own edge has the mean of the features
    }
    unit_.parameter(name_ + ".attention", ParamMark::replicated({heads, width / heads}));
    unit_.parameter(name_ + ".bias", ParamMark::replicated({width}));
    unit_.elements("scores", scores, width, {2, 2, 2});
    const Value weights = unit_.elements("softmax", scores, heads, {6, 4, 2});
    Value factors = weights;
    factors.rows = rows_.factors;
    const Value sums = unit_.message_sum(senders, factors, rows_.edges);
    unit_.segment_sum(weights, rows_.atoms);
    return unit_.elements("own scores", sums, width, {6, 5, 4});
  }

  Value cgcnn(const Value& x) {
    const int64_t width = config_.width;
    const Value features = of_vectors(rows_.edges, config_.edge_columns());
    Value messages;
    for (const char* part : {".gate", ".core"}) {
      messages = activated(unit_, edge_linear(name_ + part, x, features, width));
    }
    messages = unit_.elements("product", messages, width, {2, 1, 1});  // the gate is what its activation keeps
    return added(unit_, x, unit_.segment_sum(cut_off(messages), rows_.atoms));
  }

  UnitTrace& unit_;
  const GraphRows& rows_;
  const ModelConfig& config_;
  const TracedLayer& layer_;
  std::string name_;
  const Value& radial_;
};

// Batch norm sums rows, sums squares of deviations, which it keeps in the place of its input, and scales them.
Value normed(UnitTrace& unit, NormKind kind, const std::string& name, const Value& x) {
  if (kind == NormKind::none) return x;
  unit.parameter(name + ".weight", ParamMark::replicated({x.columns}));
  unit.parameter(name + ".bias", ParamMark::replicated({x.columns}));
  if (kind == NormKind::layer) return unit.elements("norm", x, x.columns, {1, 1, 1});
  unit.row().buffers.push_back({name + ".running_mean", {x.columns}});
  unit.row().buffers.push_back({name + ".running_variance", {x.columns}});
  return unit.elements("batch norm", x, x.columns, {10, 6, 1});  // 7 and 5 in forward, 14 and 7 in backward
}

}  // namespace

Value radial_values(UnitTrace& unit, const GraphRows& rows, const ModelConfig& config) {
  Value vectors = unit.data(rows.factors, 3);
  vectors.on_differentiated = true;
  const Value lengths = unit.elements("lengths", vectors, 3, {6, 3, 3});
  if (config.radial == 0) return unit.part(lengths, 0);
  return unit.elements("radial functions", lengths, config.radial, {3, 4, 2});
}

Value trace_layer(UnitTrace& unit, const GraphRows& rows, const ModelConfig& config, const TracedLayer& layer,
                  const Value& x, const Value& radial) {
  const Value states = ConvTrace(unit, rows, config, layer, radial).traced(x);
  return activated(unit, normed(unit, layer.norm, layer.name + ".norm", states));
}

void trace_heads(UnitTrace& unit, const GraphRows& rows, const ModelConfig& config, const std::string& name,
                 const Value& atoms, const Value& graphs, const Value& radial) {
  unit.set_differentiates(false);  // no energy is pooled
  Value shared = graphs;
  for (int64_t i = 0; i < config.shared_layers; ++i) {
    shared = activated(unit, unit.linear(fmt::format("{}.shared.{}", name, i), shared, config.shared_width, {}));
  }
  for (const OutputConfig& output : config.outputs) {
    if (output.is_derivative()) continue;
    const std::string head = name + "." + output.name;
    const bool is_energy = config.is_differentiated(output), is_conv = output.head == HeadKind::conv;
    unit.set_differentiates(is_energy);
    Value x = config.is_pooled(output) ? shared : atoms;
    for (int64_t i = 0; i < output.layers; ++i) {
      if (is_conv) {
        const TracedLayer layer{.name = fmt::format("{}.layers.{}", head, i),
                                .norm = config.norm_of_heads(),
                                .last = i + 1 == output.layers};
        x = trace_layer(unit, rows, config, layer, x, radial);
      } else {
        x = activated(unit, unit.linear(fmt::format("{}.dense.hidden.{}", head, i), x, output.width, {}));
      }
    }
    unit.linear(head + ".dense.output", x, output.head_columns(), {.gives_energy = is_energy});
  }
}

}  // namespace terrace::models::gnn
