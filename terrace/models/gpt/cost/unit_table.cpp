// Traces the units of a GPT, in the order in which models/gpt/model.cpp computes them.
#include "terrace/models/gpt/cost/unit_table.h"

#include <utility>

#include "terrace/layers/transformer_trace.h"
#include "terrace/layers/unit_trace.h"

namespace terrace::models::gpt {
namespace {

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
    case Activation::geglu:
      return layers::Activation::geglu;
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
  if (config.scaled_embeddings) x = unit.elements("embedding scale", x, config.width, {.read = 1, .written = 1});
  if (config.positions == Positions::learned) x = unit.add_positions("embedding.positions", x, config.sequence);
  unit.output(unit.dropout(x, config.dropout));
  return unit.finished();
}

layers::ExpertLayout expert_layout(const ExpertsConfig& experts, layers::Activation activation) {
  return {.number = experts.number,
          .per_token = experts.per_token,
          .width = experts.width,
          .activation = activation,
          .bias = experts.bias,
          .counts_sequences = experts.balance_loss > 0};
}

layers::TransformerLayout block_layout(const ModelConfig& config, bool by_document) {
  const layers::Activation activation = activation_of(config);
  layers::TransformerLayout layout{.layers = config.layers,
                                   .width = config.width,
                                   .ffn_width = config.ffn_width,
                                   .positions = config.sequence,
                                   .heads = config.heads,
                                   .kv_heads = config.kv_heads,
                                   .head_dim = config.head_dim,
                                   .window = config.window,
                                   .global_every = config.global_every,
                                   .norm = norm_of(config),
                                   .post_norms = config.post_norms,
                                   .normalises_heads = config.qk_norm,
                                   .activation = activation,
                                   // A gate stays with its up.
                                   .ffn_groups = layers::is_gated(activation) ? config.ffn_width : 0,
                                   .bias = config.bias,
                                   .qkv_bias = config.has_qkv_bias(),
                                   .dropout = config.dropout,
                                   .attention_dropout = config.attention_dropout,
                                   .experts = expert_layout(config.experts, activation),
                                   .dense_layers = config.experts.dense_layers,
                                   .shared_experts = config.experts.shared,
                                   .shared_gate = config.experts.shared_gate,
                                   .by_document = by_document};
  if (by_document) layout.attention_tensors = {"positions", "documents", "document_starts"};
  return layout;
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
  layers::add_blocks(block_layout(config, reset_at_documents), options, table);
  table.push_back(head(config, options));
  return table;
}

}  // namespace terrace::models::gpt
