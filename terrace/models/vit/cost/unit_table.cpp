// Traces the units of a vision transformer, in the order in which models/vit/model.cpp computes them.
#include "terrace/models/vit/cost/unit_table.h"

#include <fmt/format.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "terrace/layers/unit_trace.h"
#include "terrace/models/vit/cost/fields_trace.h"

namespace terrace::models::vit {
namespace {

using layers::Activation;
using layers::Cut;
using layers::UnitTrace;
using layers::Value;
using schedule::UnitRow;
using schedule::UnitTableOptions;

layers::HeadNormLayout head_norms_of(const ModelConfig& config) {
  return {.heads = config.heads, .key_heads = config.heads, .width = config.head_dim(), .centered = true};
}

// The joint projection's rows are in groups: a head's query, its key, its value.
layers::LinearLayout joint_of(const ModelConfig& config) {
  return {.operation = "qkv", .cut = Cut::outputs, .rows = {.groups = config.heads, .shared = 2 * config.head_dim()}};
}

UnitRow embedding(const ModelConfig& config, const UnitTableOptions& options) {
  UnitTrace unit(options, {.name = "embedding", .positions = config.places()});
  unit.row().batch_tensors = {"inputs"};
  if (config.lead_embedding) unit.row().batch_tensors.emplace_back("leads");
  if (config.time_inputs) unit.row().batch_tensors.emplace_back("times");
  const Value variables = aggregated_variables(unit, config, joint_of(config).rows);
  Value x = unit.linear("embedding.aggregation.output", variables, config.width,
                        {.operation = "aggregation output", .cut = Cut::inputs});
  if (config.qk_norm) add_aggregation_norms(unit, config);
  x = add_places_and_times(unit, config, x);
  unit.output(unit.dropout(x, config.dropout));
  return unit.finished();
}

UnitTrace::Unit unit_of_layer(const ModelConfig& config, const char* name) {
  return {.name = fmt::format("blocks.0.{}", name), .prefix = "blocks.0.", .layer = 0, .positions = config.places()};
}

UnitRow attention(const ModelConfig& config, const UnitTableOptions& options, bool drops_path) {
  UnitTrace unit(options, unit_of_layer(config, "attention"));
  const Value x = unit.hidden(config.width);
  const Value y = unit.norm("attention_norm", x, {});
  Value joint = unit.linear("attention.qkv", y, 3 * config.width, joint_of(config));
  if (config.qk_norm) joint = unit.head_norms("attention", joint, head_norms_of(config));
  const Value context = unit.attention(
      joint, {.heads = config.heads, .head_dim = config.head_dim(), .positions = config.places(), .causal = false});
  const Value z =
      unit.linear("attention.output", context, config.width, {.operation = "attention output", .cut = Cut::inputs});
  const Value branch = unit.dropout(z, config.dropout);
  unit.add_later(x, drops_path ? unit.drop_path(branch) : branch);
  return unit.finished();
}

UnitRow feed_forward(const ModelConfig& config, const UnitTableOptions& options, bool drops_path) {
  UnitTrace unit(options, unit_of_layer(config, "ffn"));
  const Value x = unit.branch_sum(config.width);
  const Value y = unit.norm("ffn_norm", x, {});
  // Whole heads' shares, from which dropout counts.
  const Value first = unit.linear("ffn.first", y, config.ffn_width(),
                                  {.operation = "ffn first", .cut = Cut::outputs, .rows = {.groups = config.heads}});
  const Value inner = unit.dropout(unit.activation(first, Activation::gelu, /*in_product=*/false), config.dropout);
  const Value z = unit.linear("ffn.second", inner, config.width, {.operation = "ffn second", .cut = Cut::inputs});
  const Value branch = unit.dropout(z, config.dropout);
  unit.output(unit.add(x, drops_path ? unit.drop_path(branch) : branch));
  return unit.finished();
}

UnitRow head(const ModelConfig& config, const UnitTableOptions& options) {
  UnitTrace unit(options, {.name = "head", .positions = config.places()});
  unit.row().batch_tensors = {"targets", "before", "weights", "mask"};
  if (config.reads_climatology()) unit.row().batch_tensors.emplace_back("climatology");
  if (config.damps_anomaly()) unit.row().batch_tensors.emplace_back("climatology_before");
  Value x = unit.norm("head.norm", unit.hidden(config.width), {});
  for (int64_t i = 0; i < config.head_layers; ++i) {
    const Value hidden = unit.linear(fmt::format("head.hidden.{}", i), x, config.width, {.operation = "head hidden"});
    x = unit.activation(hidden, Activation::gelu, /*in_product=*/false);
  }
  const Value fields =
      unit.linear("head.output", x, config.num_outputs() * config.patch_size(), {.operation = "head output"});
  add_fields_loss(unit, config, fields);
  return unit.finished();
}

}  // namespace

schedule::UnitTable unit_table(const ModelConfig& config, const UnitTableOptions& options) {
  schedule::UnitTable table = {embedding(config, options)};
  // The rows are the same in every layer without stochastic depth, and in every layer with it.
  const std::array<std::array<UnitRow, 2>, 2> layer = {
      {{attention(config, options, false), feed_forward(config, options, false)},
       {attention(config, options, true), feed_forward(config, options, true)}}};
  for (int64_t i = 0; i < config.layers; ++i) {
    for (const UnitRow& row : layer.at(drop_path_of(config, i) > 0 ? 1 : 0)) {
      table.push_back(layers::renamed(row, "blocks.0.", fmt::format("blocks.{}.", i), i));
    }
  }
  table.push_back(head(config, options));
  return table;
}

schedule::UnitTable VitDescription::unit_table(const config::Config& config, const UnitTableOptions& options) const {
  return vit::unit_table(model_of(config), options);
}

}  // namespace terrace::models::vit
