// Traces the units of a vision transformer, in the order in which models/vit/model.cpp computes them.
#include "terrace/models/vit/cost/unit_table.h"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "terrace/layers/transformer_trace.h"
#include "terrace/layers/unit_trace.h"
#include "terrace/models/vit/cost/fields_trace.h"

namespace terrace::models::vit {
namespace {

using layers::Activation;
using layers::UnitTrace;
using layers::Value;
using layers::WeightCut;
using schedule::UnitRow;
using schedule::UnitTableOptions;

// The rows of a joint projection are in groups: a head's query, its key, its value.
layers::RowGroups joint_rows(const ModelConfig& config) {
  return {.groups = config.heads, .shared = 2 * config.head_dim()};
}

UnitRow embedding(const ModelConfig& config, const UnitTableOptions& options) {
  UnitTrace unit(options, {.name = "embedding", .positions = config.places()});
  unit.row().batch_tensors = {"inputs"};
  if (config.lead_embedding) unit.row().batch_tensors.emplace_back("leads");
  if (config.time_inputs) unit.row().batch_tensors.emplace_back("times");
  const Value variables = aggregated_variables(unit, config, joint_rows(config));
  Value x = unit.linear("embedding.aggregation.output", variables, config.width,
                        {.operation = "aggregation output", .cut = WeightCut::inputs});
  if (config.qk_norm) add_aggregation_norms(unit, config);
  x = add_places_and_times(unit, config, x);
  unit.output(unit.dropout(x, config.dropout));
  return unit.finished();
}

layers::TransformerLayout block_layout(const ModelConfig& config) {
  layers::TransformerLayout layout{.layers = config.layers,
                                   .width = config.width,
                                   .ffn_width = config.ffn_width(),
                                   .positions = config.places(),
                                   .heads = config.heads,
                                   .kv_heads = config.heads,
                                   .head_dim = config.head_dim(),
                                   .causal = false,
                                   .normalises_heads = config.qk_norm,
                                   .centers_heads = true,
                                   .activation_in_product = false,
                                   // Whole heads' shares, from which dropout counts.
                                   .ffn_groups = config.heads,
                                   .dropout = config.dropout,
                                   .inner_dropout = config.dropout};
  for (int64_t layer = 0; layer < config.layers; ++layer) layout.drop_paths.push_back(drop_path_of(config, layer));
  return layout;
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
  layers::add_blocks(block_layout(config), options, table);
  table.push_back(head(config, options));
  return table;
}

schedule::UnitTable VitDescription::unit_table(const config::Config& config, const UnitTableOptions& options) const {
  return vit::unit_table(model_of(config), options);
}

schedule::SampleBytes VitDescription::sample_bytes(const config::Config& config) const {
  const ModelConfig& model = model_of(config);
  const auto field = static_cast<double>(4 * model.latitudes() * model.longitudes());  // in fp32
  const int64_t climatologies = (model.reads_climatology() ? 1 : 0) + (model.damps_anomaly() ? 1 : 0);
  const double inputs = field * static_cast<double>(model.num_channels());
  const double outputs = field * static_cast<double>(model.num_outputs());
  const double targets = outputs * static_cast<double>(1 + climatologies);
  return {.inputs = inputs, .loss = targets + outputs, .both = inputs + targets};
}

}  // namespace terrace::models::vit
