// Traces the units of a GPT, in the order in which models/gpt/model.cpp computes them.
#include "terrace/models/gpt/cost/unit_table.h"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "terrace/layers/unit_trace.h"

namespace terrace::models::gpt {
namespace {

using layers::Cut;
using layers::UnitTrace;
using layers::Value;
using schedule::UnitRow;
using schedule::UnitTableOptions;

layers::NormLayout norm_of(const ModelConfig& config) {
  return {.centered = config.norm == Norm::layernorm, .bias = config.bias};
}

layers::Activation activation_of(const ModelConfig& config) {
  switch (config.activation) {
    case Activation::gelu:
      return layers::Activation::gelu;
    case Activation::gelu_erf:
      return layers::Activation::gelu_erf;
    case Activation::swiglu:
      break;
  }
  return layers::Activation::swiglu;
}

UnitRow embedding(const ModelConfig& config, const UnitTableOptions& options, bool by_document) {
  UnitTrace unit(options, {.name = "embedding", .positions = config.sequence});
  unit.row().batch_tensors = {"tokens"};
  if (by_document) unit.row().batch_tensors.emplace_back("positions");
  Value x = unit.embedding("embedding.tokens", config.padded_vocabulary(), config.width);
  if (config.positions == Positions::learned) x = unit.add_positions("embedding.positions", x, config.sequence);
  unit.output(unit.dropout(x, config.dropout));
  return unit.finished();
}

// Attention's kernels rotate queries and keys themselves.
UnitRow attention(const ModelConfig& config, const UnitTableOptions& options, bool by_document) {
  UnitTrace unit(options,
                 {.name = "blocks.0.attention", .prefix = "blocks.0.", .layer = 0, .positions = config.sequence});
  if (by_document) unit.row().batch_tensors = {"positions", "documents", "document_starts"};
  const int64_t columns = (config.heads + 2 * config.kv_heads) * config.head_dim;
  const Value x = unit.hidden(config.width);
  const Value y = unit.norm("attention_norm", x, norm_of(config));
  // The rows are in groups: a group's queries, its key, its value. If there are fewer groups than ranks, a group's
  // queries are divided among several ranks, which all have its key and its value.
  Value joint = unit.linear("attention.qkv", y, columns,
                            {.operation = "qkv",
                             .bias = config.has_qkv_bias(),
                             .cut = Cut::outputs,
                             .rows = {.groups = config.kv_heads, .shared = 2 * config.head_dim}});
  if (config.qk_norm) {
    joint = unit.head_norms("attention", joint,
                            {.heads = config.heads, .key_heads = config.kv_heads, .width = config.head_dim});
  }
  const Value context = unit.attention(joint, {.heads = config.heads,
                                               .head_dim = config.head_dim,
                                               .positions = config.sequence,
                                               .window = config.window,
                                               .drops = config.attention_dropout > 0,
                                               .by_document = by_document});
  const Value z = unit.linear("attention.output", context, config.width,
                              {.operation = "attention output", .bias = config.bias, .cut = Cut::inputs});
  unit.add_later(x, unit.dropout(z, config.dropout));
  return unit.finished();
}

UnitRow feed_forward(const ModelConfig& config, const UnitTableOptions& options) {
  UnitTrace unit(options, {.name = "blocks.0.ffn", .prefix = "blocks.0.", .layer = 0, .positions = config.sequence});
  const bool pairs = config.activation == Activation::swiglu;  // of rows: gate and up
  const Value x = unit.branch_sum(config.width);
  const Value y = unit.norm("ffn_norm", x, norm_of(config));
  const Value first = unit.linear("ffn.first", y, (pairs ? 2 : 1) * config.ffn_width,
                                  {.operation = "ffn first",
                                   .bias = config.bias,
                                   .cut = Cut::outputs,
                                   .rows = {.groups = pairs ? config.ffn_width : 0}});
  const Value inner = unit.activation(first, activation_of(config), /*in_product=*/true);
  const Value z = unit.linear("ffn.second", inner, config.width,
                              {.operation = "ffn second", .bias = config.bias, .cut = Cut::inputs});
  unit.output(unit.add_dropped(x, z, config.dropout));
  return unit.finished();
}

UnitRow head(const ModelConfig& config, const UnitTableOptions& options) {
  UnitTrace unit(options, {.name = "head", .positions = config.sequence});
  unit.row().batch_tensors = {"targets"};
  const Value x = unit.norm("head.norm", unit.hidden(config.width), norm_of(config));
  if (config.tied_head) unit.row().reads_also = {0};
  unit.vocabulary_loss(config.tied_head ? "" : "head.output", x, config.padded_vocabulary());
  return unit.finished();
}

}  // namespace

schedule::UnitTable unit_table(const ModelConfig& config, const UnitTableOptions& options, bool reset_at_documents) {
  schedule::UnitTable table = {embedding(config, options, reset_at_documents)};
  const std::vector<UnitRow> layer = {attention(config, options, reset_at_documents), feed_forward(config, options)};
  for (int64_t i = 0; i < config.layers; ++i) {
    for (const UnitRow& row : layer) {
      table.push_back(layers::renamed(row, "blocks.0.", fmt::format("blocks.{}.", i), i));
    }
  }
  table.push_back(head(config, options));
  return table;
}

}  // namespace terrace::models::gpt
