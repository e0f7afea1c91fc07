// Makes the unit table of a GPT: names and shapes of parameters as the modules of models/gpt/model.cpp register them,
// which build_model() checks, and the figures of cost.h for each unit.
#include "terrace/models/gpt/cost/unit_table.h"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "terrace/models/gpt/cost/cost.h"
#include "terrace/models/gpt/cost/operations.h"
#include "terrace/models/gpt/cost/sharding.h"

namespace terrace::models::gpt {
namespace {

class Builder {
 public:
  Builder(const ModelConfig& config, const schedule::UnitTableOptions& options, bool reset_at_documents)
      : config_(config),
        options_(options),
        reset_at_documents_(reset_at_documents),
        attention_operations_(attention_operations(config, options)),
        ffn_operations_(ffn_operations(config, options)) {}

  schedule::UnitTable table() {
    embedding();
    for (int64_t layer = 0; layer < config_.layers; ++layer) {
      attention(layer);
      ffn(layer);
    }
    head();
    return std::move(table_);
  }

 private:
  void begin(std::string name, int64_t layer) { table_.push_back({.name = std::move(name), .layer = layer}); }

  void parameter(const std::string& name, std::vector<int64_t> shape) {
    const std::string full = table_.back().name.substr(0, table_.back().name.rfind('.') + 1) + name;
    table_.back().parameters.push_back({full, mark_of(config_, full, std::move(shape))});
  }

  void norm(const std::string& name) {
    parameter(name + ".weight", {config_.width});
    if (config_.norm == Norm::layernorm && config_.bias) parameter(name + ".bias", {config_.width});
  }

  void linear(const std::string& name, int64_t inputs, int64_t outputs, bool bias) {
    parameter(name + ".weight", {outputs, inputs});
    if (bias) parameter(name + ".bias", {outputs});
  }

  // Sets the FLOPs of a unit from those of its products in forward. Products with weights take as many FLOPs for each
  // gradient. Products of attention's scores have two inputs, and so take twice as many for the input gradient.
  void flops(double linear, double scores, double counted) {
    schedule::UnitRow& row = table_.back();
    const auto samples = static_cast<double>(options_.samples);
    row.forward_flops = samples * (linear + scores);
    row.input_gradient_flops = samples * (linear + 2 * scores);
    row.weight_gradient_flops = samples * linear;
    row.counted_flops = samples * 3 * counted;
  }

  template <typename Bytes>
  void kept(const Bytes& bytes) {
    using config::Recompute;
    for (const Recompute mode : {Recompute::none, Recompute::selective, Recompute::full}) {
      table_.back().kept_bytes[static_cast<size_t>(mode)] = bytes(config_, options_, mode);
    }
    table_.back().output_bytes = hidden_bytes(config_, options_);
  }

  void embedding() {
    begin("embedding", -1);
    table_.back().batch_tensors = {"tokens"};
    if (reset_at_documents_) table_.back().batch_tensors.emplace_back("positions");
    parameter("embedding.tokens.weight", {config_.padded_vocabulary(), config_.width});
    if (config_.positions == Positions::learned) {
      parameter("embedding.positions.weight", {config_.sequence, config_.width});
    }
    kept([](const auto& config, const auto& options, config::Recompute) {
      return embedding_kept_bytes(config, options);
    });
    table_.back().deferred_bytes = embedding_deferred_bytes(config_, options_);
    table_.back().operations = embedding_operations(config_, options_);
  }

  void attention(int64_t layer) {
    begin(fmt::format("blocks.{}.attention", layer), layer);
    if (reset_at_documents_) table_.back().batch_tensors = {"positions", "documents", "document_starts"};
    const int64_t columns = config_.heads * config_.head_dim;
    norm("attention_norm");
    linear("attention.qkv", config_.width, columns + 2 * config_.kv_heads * config_.head_dim, config_.has_qkv_bias());
    linear("attention.output", columns, config_.width, config_.bias);
    if (config_.qk_norm) {
      parameter("attention.query_norm.weight", {config_.head_dim});
      parameter("attention.key_norm.weight", {config_.head_dim});
    }
    const auto layers = static_cast<double>(config_.layers);
    const double scores = attention_forward_flops(config_, AttentionCount::causal_half) / layers;
    const double block = block_forward_flops(config_, AttentionCount::causal_half) / layers;
    const double ffn = ffn_forward_flops(config_) / layers;
    flops(block - ffn - scores, scores, block_forward_flops(config_, AttentionCount::full) / layers - ffn);
    kept(attention_kept_bytes);
    table_.back().deferred_bytes = attention_deferred_bytes(config_, options_);
    table_.back().temporary_bytes = attention_temporary_bytes(config_, options_);
    table_.back().operations = attention_operations_;
    mask(mask_bytes(config_, options_, reset_at_documents_));
  }

  // Each pass over what the mask is made from reads and writes as much. Forward and backward read the mask for every
  // head; the caches of a GPU bring most of it once.
  void mask(const MaskBytes& bytes) {
    if (bytes.kept == 0) return;
    table_.back().kept_bytes[static_cast<size_t>(config::Recompute::none)] += bytes.kept;
    table_.back().temporary_bytes += bytes.kept + bytes.temporary;
    const auto kept = static_cast<double>(bytes.kept), temporary = static_cast<double>(bytes.temporary);
    schedule::Operations& operations = table_.back().operations;
    operations.forward.push_back(schedule::memory_pass("attention mask", 2 * temporary + 2 * kept, 4));
    operations.input_gradient.push_back(schedule::memory_pass("attention mask", kept, 0));
  }

  void ffn(int64_t layer) {
    begin(fmt::format("blocks.{}.ffn", layer), layer);
    const int64_t first = config_.activation == Activation::swiglu ? 2 : 1;
    norm("ffn_norm");
    linear("ffn.first", config_.width, first * config_.ffn_width, config_.bias);
    linear("ffn.second", config_.ffn_width, config_.width, config_.bias);
    const double products = ffn_forward_flops(config_) / static_cast<double>(config_.layers);
    flops(products, 0, products);
    kept(ffn_kept_bytes);
    table_.back().deferred_bytes = ffn_deferred_bytes(config_, options_);
    table_.back().temporary_bytes = ffn_temporary_bytes(config_, options_);
    table_.back().operations = ffn_operations_;
  }

  void head() {
    begin("head", -1);
    table_.back().batch_tensors = {"targets"};
    norm("head.norm");
    if (config_.tied_head) {
      table_.back().reads_also = {0};
    } else {
      linear("head.output", config_.width, config_.padded_vocabulary(), false);
    }
    const double products = head_forward_flops(config_);
    flops(products, 0, products);
    table_.back().temporary_bytes = head_temporary_bytes(config_, options_);
    table_.back().operations = head_operations(config_, options_);
  }

  const ModelConfig& config_;
  const schedule::UnitTableOptions& options_;
  bool reset_at_documents_;
  schedule::Operations attention_operations_, ffn_operations_;  // the same in every layer
  schedule::UnitTable table_;
};

}  // namespace

schedule::UnitTable unit_table(const ModelConfig& config, const schedule::UnitTableOptions& options,
                               bool reset_at_documents) {
  return Builder(config, options, reset_at_documents).table();
}

}  // namespace terrace::models::gpt
