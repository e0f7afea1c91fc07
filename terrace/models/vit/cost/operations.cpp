// Lists the operations of each unit of a vision transformer, in the order of models/vit/model.cpp.
#include "terrace/models/vit/cost/operations.h"

#include "terrace/base/operation_limits.h"
#include "terrace/models/vit/cost/cost.h"
#include "terrace/schedule/transformer_operations.h"

namespace terrace::models::vit {
namespace {

using schedule::matrix_product;
using schedule::memory_pass;
using schedule::Operation;
using schedule::Operations;
using schedule::UnitTableOptions;

constexpr int64_t wide_element_bytes = 4;  // of fp32, in which variables are aggregated

schedule::TransformerShape shape_of(const ModelConfig& config) {
  return {.sequence = config.places(),
          .width = config.width,
          .head_dim = config.head_dim(),
          .causal = false,
          .head_norms_are_centered = true,
          .dropout = config.dropout};
}

double fp32_bytes(int64_t elements) { return static_cast<double>(elements * wide_element_bytes); }

// `count` products [m, k] x [k, n] in forward, and those of the gradients of one or both factors. Backward computes the
// attention to variables again, and what is computed in several pieces once more.
void add_products(Operations& operations, std::string_view name, int64_t count, int64_t m, int64_t n, int64_t k,
                  int64_t gradients, int64_t repetitions = 1) {
  const Operation forward = schedule::repeated(count, matrix_product(name, m, n, k, wide_element_bytes));
  operations.forward.push_back(forward);
  if (repetitions > 0) operations.input_gradient.push_back(schedule::repeated(repetitions, forward));
  if (gradients > 0)
    operations.input_gradient.push_back(schedule::repeated(count, matrix_product(name, k, n, m, wide_element_bytes)));
  if (gradients > 1)
    operations.input_gradient.push_back(schedule::repeated(count, matrix_product(name, m, k, n, wide_element_bytes)));
}

void add_passes(Operations& operations, std::string_view name, double bytes, int64_t kernels) {
  operations.forward.push_back(memory_pass(name, bytes, kernels));
  operations.input_gradient.push_back(memory_pass(name, 3 * bytes, 3 * kernels));
}

// The attention of a rank's heads to the channels at so many places.
void aggregate(const ModelConfig& config, int64_t heads, int64_t places, Operations& operations) {
  const int64_t channels = config.num_channels(), of_channel = config.patch_size() + 1, inputs = channels * of_channel;
  const int64_t width = config.width, head_dim = config.head_dim(), own = heads * head_dim;
  const int64_t repetitions = places * heads * inputs * wide_element_bytes > aggregation_piece_bytes ? 2 : 1;
  add_products(operations, "query", 1, own, 1, width, 2);
  add_products(operations, "map of values", 1, own, inputs, width, 2);
  if (config.qk_norm) {
    add_products(operations, "map of keys", 1, own, inputs, width, 2);
    add_products(operations, "map of scores", heads, 1, inputs, head_dim, 2);
    add_products(operations, "map of squares", heads * channels, of_channel, of_channel, head_dim, 2);
    add_products(operations, "squares of deviations", channels, places, heads * of_channel, of_channel, 1, repetitions);
    add_passes(operations, "squares of deviations", 3 * fp32_bytes(places * inputs * heads), 4);
  } else {
    add_products(operations, "keys of the query", heads, 1, width, head_dim, 2);
    add_products(operations, "map of scores", 1, heads, inputs, width, 2);
  }
  add_products(operations, "scores of variables", channels, places, heads, of_channel, 1, repetitions);
  add_products(operations, "values of variables", heads, places, head_dim, inputs, 2, repetitions);
  add_passes(operations, "copy weights", 2 * fp32_bytes((3 * own + 2 * inputs) * width), 8);
  add_passes(operations, "softmax", 4 * fp32_bytes(places * channels * heads), 3);
  add_passes(operations, "weigh patches", fp32_bytes(places * inputs * (heads + 2)), 2);
}

// A factor for each sample is drawn, and multiplied with the branch.
void drop_path(const ModelConfig& config, const UnitTableOptions& options, Operations& operations) {
  const double hidden = static_cast<double>(hidden_bytes(config, options));
  operations.forward.push_back(
      memory_pass("dropout", 2 * static_cast<double>(options.samples * options.element_bytes)));
  operations.forward.push_back(memory_pass("drop path", 2 * hidden));
  operations.input_gradient.push_back(memory_pass("drop path", 2 * hidden));
}

}  // namespace

Operations embedding_operations(const ModelConfig& config, const UnitTableOptions& options) {
  const int64_t heads = config.heads / options.tensor_ranks;
  schedule::TransformerOperations unit(shape_of(config), options);
  const int64_t fields = options.samples * config.places() * config.num_channels() * config.patch_size();
  unit.operations.forward.push_back(memory_pass("patches", 2 * fp32_bytes(fields)));
  aggregate(config, heads, options.samples * config.places(), unit.operations);
  unit.cut_by_inputs("aggregation output", heads * config.head_dim());
  // Of the lead and of the time.
  for (const int64_t inputs : {config.lead_embedding ? int64_t{1} : 0, config.time_inputs ? int64_t{4} : 0}) {
    if (inputs == 0) continue;
    add_products(unit.operations, "lead or time", 1, options.samples, config.width, inputs, 1, /*repetitions=*/0);
  }
  unit.operations.forward.push_back(
      memory_pass("add positions", 3 * static_cast<double>(hidden_bytes(config, options))));
  unit.dropout(/*adds=*/false);
  return unit.operations;
}

Operations attention_operations(const ModelConfig& config, const UnitTableOptions& options, bool drops_path) {
  const int64_t heads = config.heads / options.tensor_ranks, context = heads * config.head_dim();
  schedule::TransformerOperations unit(shape_of(config), options);
  unit.norm({.in_residual = true});
  unit.cut_by_outputs("qkv", 3 * context, true);
  if (config.qk_norm) unit.head_norm(heads, heads);
  unit.attention(heads, unit.bytes_of_tokens(3 * context), unit.bytes_of_tokens(context));
  unit.cut_by_inputs("attention output", context);
  unit.dropout(/*adds=*/false);
  if (drops_path) drop_path(config, options, unit.operations);
  return unit.operations;
}

Operations ffn_operations(const ModelConfig& config, const UnitTableOptions& options, bool drops_path) {
  const int64_t inner = config.ffn_width() / options.tensor_ranks;
  schedule::TransformerOperations unit(shape_of(config), options);
  const double inner_bytes = unit.bytes_of_tokens(inner);
  unit.norm({.adds = true, .in_residual = true});
  unit.cut_by_outputs("ffn first", inner, true);
  unit.operations.forward.push_back(memory_pass("gelu", 2 * inner_bytes));
  unit.operations.input_gradient.push_back(memory_pass("gelu_backward", 3 * inner_bytes));
  if (config.dropout > 0) {
    unit.operations.forward.push_back(memory_pass("dropout", 2 * inner_bytes));
    unit.operations.input_gradient.push_back(memory_pass("dropout", 2 * inner_bytes));
  }
  unit.cut_by_inputs("ffn second", inner);
  unit.dropout(/*adds=*/false);
  if (drops_path) drop_path(config, options, unit.operations);
  unit.operations.forward.push_back(memory_pass("residual", 3 * static_cast<double>(hidden_bytes(config, options))));
  return unit.operations;
}

Operations head_operations(const ModelConfig& config, const UnitTableOptions& options) {
  schedule::TransformerOperations unit(shape_of(config), options);
  const double hidden = static_cast<double>(hidden_bytes(config, options));
  unit.norm({});
  for (int64_t i = 0; i < config.head_layers; ++i) {
    unit.replicated("head hidden", config.width, config.width);
    unit.operations.forward.push_back(memory_pass("gelu", 2 * hidden));
    unit.operations.input_gradient.push_back(memory_pass("gelu_backward", 3 * hidden));
  }
  const int64_t columns = config.num_outputs() * config.patch_size();
  unit.replicated("head output", config.width, columns);
  const double own_fields = fp32_bytes(own_places(config, options) * columns);
  if (config.damps_anomaly()) {
    unit.operations.forward.push_back(memory_pass("damped anomaly", 9 * own_fields, 4));
    unit.operations.input_gradient.push_back(memory_pass("damping gradient", 3 * own_fields, 2));
  }
  unit.gather_output(columns, config.damps_anomaly() ? wide_element_bytes : options.element_bytes);
  // The difference from the targets, its square, its weighted means and those of persistence.
  const double fields = fp32_bytes(options.samples * config.places() * columns);
  unit.operations.forward.push_back(memory_pass("loss", 24 * fields, 16));
  unit.operations.input_gradient.push_back(memory_pass("loss gradient", 10 * fields, 6));
  return unit.operations;
}

}  // namespace terrace::models::vit
