// Adds products and passes over memory as models/vit/aggregation.cpp and models/vit/model.cpp execute them.
#include "terrace/models/vit/cost/fields_trace.h"

#include <algorithm>

#include "terrace/base/operation_limits.h"

namespace terrace::models::vit {
namespace {

using layers::UnitTrace;
using layers::Value;
using schedule::matrix_product;
using schedule::memory_pass;
using schedule::Operation;
using schedule::Operations;
using schedule::repeated;

constexpr int64_t wide_bytes = 4;  // of fp32, in which variables are aggregated and the loss is computed

double fp32_bytes(int64_t elements) { return static_cast<double>(elements * wide_bytes); }

// The sizes of the aggregation on a rank.
struct Aggregation {
  int64_t channels, of_channel;  // columns of a channel: its patch and the constant 1
  int64_t inputs;                // of all channels
  int64_t heads, head_dim, own;  // columns of the rank's heads
  int64_t width, places;
};

Aggregation aggregation_of(const ModelConfig& config, const schedule::UnitTableOptions& options) {
  const int64_t channels = config.num_channels(), of_channel = config.patch_size() + 1;
  const int64_t heads = config.heads / options.tensor_ranks;
  return {.channels = channels,
          .of_channel = of_channel,
          .inputs = channels * of_channel,
          .heads = heads,
          .head_dim = config.head_dim(),
          .own = heads * config.head_dim(),
          .width = config.width,
          .places = options.samples * config.places()};
}

// `count` products [m, k] x [k, n] in forward, and those of the gradients of one or both factors. Backward computes the
// attention to variables again, and what is computed in several pieces once more.
void add_products(Operations& operations, std::string_view name, int64_t count, int64_t m, int64_t n, int64_t k,
                  int64_t gradients, int64_t repetitions = 1) {
  const Operation forward = repeated(count, matrix_product(name, m, n, k, wide_bytes));
  operations.forward.push_back(forward);
  if (repetitions > 0) operations.input_gradient.push_back(repeated(repetitions, forward));
  if (gradients > 0) operations.input_gradient.push_back(repeated(count, matrix_product(name, k, n, m, wide_bytes)));
  if (gradients > 1) operations.input_gradient.push_back(repeated(count, matrix_product(name, m, k, n, wide_bytes)));
}

void add_passes(Operations& operations, std::string_view name, double bytes, int64_t kernels) {
  operations.forward.push_back(memory_pass(name, bytes, kernels));
  operations.input_gradient.push_back(memory_pass(name, 3 * bytes, 3 * kernels));
}

void add_aggregation(Operations& operations, const ModelConfig& config, const Aggregation& a) {
  const int64_t repetitions = a.places * a.heads * a.inputs * wide_bytes > aggregation_piece_bytes ? 2 : 1;
  add_products(operations, "query", 1, a.own, 1, a.width, 2);
  add_products(operations, "map of values", 1, a.own, a.inputs, a.width, 2);
  if (config.qk_norm) {
    add_products(operations, "map of keys", 1, a.own, a.inputs, a.width, 2);
    add_products(operations, "map of scores", a.heads, 1, a.inputs, a.head_dim, 2);
    add_products(operations, "map of squares", a.heads * a.channels, a.of_channel, a.of_channel, a.head_dim, 2);
    add_products(operations, "squares of deviations", a.channels, a.places, a.heads * a.of_channel, a.of_channel, 1,
                 repetitions);
    add_passes(operations, "squares of deviations", 3 * fp32_bytes(a.places * a.inputs * a.heads), 4);
  } else {
    add_products(operations, "keys of the query", a.heads, 1, a.width, a.head_dim, 2);
    add_products(operations, "map of scores", 1, a.heads, a.inputs, a.width, 2);
  }
  add_products(operations, "scores of variables", a.channels, a.places, a.heads, a.of_channel, 1, repetitions);
  add_products(operations, "values of variables", a.heads, a.places, a.head_dim, a.inputs, 2, repetitions);
  add_passes(operations, "copy weights", 2 * fp32_bytes((3 * a.own + 2 * a.inputs) * a.width), 8);
  add_passes(operations, "softmax", 4 * fp32_bytes(a.places * a.channels * a.heads), 3);
  add_passes(operations, "weigh patches", fp32_bytes(a.places * a.inputs * (a.heads + 2)), 2);
}

// FLOPs of all heads, in the formulas of docs/weather.md. The patches are data, so that all gradients but those of the
// output layer are those of weights, or of what is made of weights alone: they count as gradients of inputs.
void add_aggregation_flops(UnitTrace& unit, const ModelConfig& config) {
  const Aggregation a = aggregation_of(config, {.samples = unit.options().samples});
  const auto width = static_cast<double>(a.width), heads = static_cast<double>(a.heads);
  const auto inputs = static_cast<double>(a.inputs), of_channel = static_cast<double>(a.of_channel);
  double once = 2 * width * width + 2 * inputs * width * width;
  double of_place = 2 * inputs * (heads + width);
  if (config.qk_norm) {
    // The map of keys, its products with the query and with itself, and the squares of deviations.
    once += 2 * inputs * width * (width + 1 + of_channel);
    of_place += 2 * inputs * of_channel * heads;
  } else {
    once += 2 * width * width + 2 * inputs * width * heads;
  }
  const double flops = once + static_cast<double>(a.places) * of_place;
  unit.add_flops(flops, 2 * flops, 0, 3 * flops);
}

ParamMark shared_by_heads(std::vector<int64_t> shape) {
  ParamMark mark = ParamMark::replicated(std::move(shape));
  mark.gradient_in_shares = true;
  return mark;
}

}  // namespace

Value aggregated_variables(UnitTrace& unit, const ModelConfig& config, const layers::RowGroups& rows) {
  const schedule::UnitTableOptions& options = unit.options();
  const Aggregation a = aggregation_of(config, options);
  const int64_t width = a.width, patch = config.patch_size();
  unit.parameter("embedding.tokens.weight", shared_by_heads({a.channels, width, patch}));
  unit.parameter("embedding.tokens.bias", shared_by_heads({a.channels, width}));
  unit.parameter("embedding.tokens.variables", shared_by_heads({a.channels, width}));
  unit.parameter("embedding.aggregation.query", shared_by_heads({width}));
  for (const bool bias : {false, true}) {
    const std::vector<int64_t> shape = bias ? std::vector<int64_t>{3 * width} : std::vector<int64_t>{3 * width, width};
    ParamMark mark = ParamMark::sharded(shape, 0, "tensor");
    mark.groups = rows.groups;
    mark.shared = rows.shared;
    unit.parameter(bias ? "embedding.aggregation.qkv.bias" : "embedding.aggregation.qkv.weight", std::move(mark));
  }
  unit.operations().forward.push_back(memory_pass("patches", 2 * fp32_bytes(a.places * a.channels * patch)));
  add_aggregation(unit.operations(), config, a);
  add_aggregation_flops(unit, config);
  // The patches and the query, with which the attention to variables is computed again, are kept. Temporary are copies
  // of the weights with their gradients, and the tensors of one piece of the places.
  unit.keep((a.places * a.channels * patch + width) * wide_bytes);
  const int64_t row = a.heads * a.inputs * wide_bytes;
  const int64_t piece = std::min(a.places * row, std::max(aggregation_piece_bytes, row));
  const int64_t maps = (config.qk_norm ? 5 : 2) * a.inputs;
  const int64_t hidden = unit.bytes({.rows = a.places, .own_columns = width, .cuts_rows = true});
  unit.set_temporary(2 * (3 * a.own + maps) * width * wide_bytes + (config.qk_norm ? 6 : 3) * piece + 2 * hidden);
  return unit.made(a.places, width, a.own);
}

void add_aggregation_norms(UnitTrace& unit, const ModelConfig& config) {
  for (const char* name : {"query_norm.weight", "query_norm.bias", "key_norm.weight", "key_norm.bias"}) {
    unit.parameter(std::string("embedding.aggregation.") + name, shared_by_heads({config.head_dim()}));
  }
}

Value add_places_and_times(UnitTrace& unit, const ModelConfig& config, const Value& x) {
  const int64_t samples = unit.options().samples, width = config.width;
  unit.parameter("embedding.positions", ParamMark::replicated({config.places(), width}));
  for (const auto& [name, inputs, is_there] :
       {std::tuple{"embedding.lead", int64_t{1}, config.lead_embedding}, {"embedding.time", 4, config.time_inputs}}) {
    if (!is_there) continue;
    unit.parameter(std::string(name) + ".weight", ParamMark::replicated({width, inputs}));
    unit.parameter(std::string(name) + ".bias", ParamMark::replicated({width}));
    add_products(unit.operations(), "lead or time", 1, samples, width, inputs, 1, /*repetitions=*/0);
    const double flops = 2.0 * static_cast<double>(samples) * static_cast<double>(width * inputs);
    unit.add_flops(flops, flops, 0, 2 * flops);
    unit.keep(samples * inputs * wide_bytes);
  }
  unit.operations().forward.push_back(memory_pass("add positions", 3 * static_cast<double>(unit.bytes(x))));
  return x;
}

void add_fields_loss(UnitTrace& unit, const ModelConfig& config, const Value& fields) {
  Operations& operations = unit.operations();
  const int64_t element_bytes = unit.options().element_bytes, elements = fields.rows * fields.columns;
  const int64_t hidden = unit.bytes({.rows = fields.rows, .own_columns = config.width, .cuts_rows = true});
  const bool damps = config.damps_anomaly();
  if (damps) {
    unit.parameter("head.damping",
                   ParamMark::replicated({config.num_outputs(), config.latitudes(), config.longitudes()}));
    const int64_t own_elements = unit.bytes(fields) / element_bytes;
    const double own = fp32_bytes(own_elements);
    operations.forward.push_back(memory_pass("damped anomaly", 9 * own, 4));
    operations.input_gradient.push_back(memory_pass("damping gradient", 3 * own, 2));
  }
  unit.gather_rows(fields, damps ? wide_bytes : element_bytes);
  // The difference from the targets, its square, its weighted means and those of persistence.
  operations.forward.push_back(memory_pass("loss", 24 * fp32_bytes(elements), 16));
  operations.input_gradient.push_back(memory_pass("loss gradient", 10 * fp32_bytes(elements), 6));
  // The activations of the head, patches of all places and fields in fp32; and the anomaly in patches, its product with
  // the coefficients and the sum with the head's output.
  unit.set_temporary((3 + 2 * config.head_layers) * hidden + elements * (2 * element_bytes + 5 * wide_bytes) +
                     (damps ? 4 * elements * wide_bytes : 0));
  unit.set_last();
}

}  // namespace terrace::models::vit
