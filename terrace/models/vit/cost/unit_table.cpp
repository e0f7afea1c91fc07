// Makes the unit table of a vision transformer: names and shapes of parameters as the modules of models/vit register
// them, and the figures of cost.h for each unit.
#include "terrace/models/vit/cost/unit_table.h"

#include <fmt/format.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "terrace/models/vit/cost/cost.h"
#include "terrace/models/vit/cost/operations.h"
#include "terrace/models/vit/cost/sharding.h"

namespace terrace::models::vit {
namespace {

class TableBuilder {
 public:
  TableBuilder(const ModelConfig& config, const schedule::UnitTableOptions& options)
      : config_(config),
        options_(options),
        attention_operations_{attention_operations(config, options, false),
                              attention_operations(config, options, true)},
        ffn_operations_{ffn_operations(config, options, false), ffn_operations(config, options, true)} {}

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
  void parameter(const std::string& name, std::vector<int64_t> shape) {
    ParamMark mark = mark_of(config_, name, shape);
    table_.back().parameters.push_back({name, std::move(mark)});
  }

  void linear(const std::string& name, int64_t inputs, int64_t outputs) {
    parameter(name + ".weight", {outputs, inputs});
    parameter(name + ".bias", {outputs});
  }

  void norm(const std::string& name, int64_t width) {
    parameter(name + ".weight", {width});
    parameter(name + ".bias", {width});
  }

  void head_norms(const std::string& name) {
    if (!config_.qk_norm) return;
    norm(name + ".query_norm", config_.head_dim());
    norm(name + ".key_norm", config_.head_dim());
  }

  // Products with weights take as many FLOPs for each gradient as in forward, those of two inputs twice as many for the
  // gradient of both.
  void flops(double linear, double of_inputs) {
    schedule::UnitRow& row = table_.back();
    const auto samples = static_cast<double>(options_.samples);
    row.forward_flops = samples * (linear + of_inputs);
    row.input_gradient_flops = samples * (linear + 2 * of_inputs);
    row.weight_gradient_flops = samples * linear;
    row.counted_flops = 3 * row.forward_flops;
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
    const int64_t channels = config_.num_channels(), width = config_.width;
    table_.push_back({.name = "embedding", .batch_tensors = {"inputs"}});
    if (config_.lead_embedding) table_.back().batch_tensors.emplace_back("leads");
    if (config_.time_inputs) table_.back().batch_tensors.emplace_back("times");
    parameter("embedding.tokens.weight", {channels, width, config_.patch_size()});
    parameter("embedding.tokens.bias", {channels, width});
    parameter("embedding.tokens.variables", {channels, width});
    parameter("embedding.aggregation.query", {width});
    linear("embedding.aggregation.qkv", width, 3 * width);
    linear("embedding.aggregation.output", width, width);
    head_norms("embedding.aggregation");
    parameter("embedding.positions", {config_.places(), width});
    if (config_.lead_embedding) linear("embedding.lead", 1, width);
    if (config_.time_inputs) linear("embedding.time", 4, width);

    // The patches are data, so that the gradients of all products but the last are those of weights, or of what is made
    // of weights alone.
    const AggregationFlops flops = aggregation_flops(config_);
    const double places = static_cast<double>(options_.samples * config_.places());
    const double output = 2.0 * places * static_cast<double>(width) * static_cast<double>(width);
    schedule::UnitRow& row = table_.back();
    const double lead_and_time = static_cast<double>(options_.samples) * lead_and_time_flops(config_);
    row.forward_flops = flops.once + places * flops.of_place + lead_and_time;
    row.input_gradient_flops = 2 * (flops.once + places * flops.of_place - output) + output + lead_and_time;
    row.weight_gradient_flops = output;
    row.counted_flops = 3 * row.forward_flops - lead_and_time;
    kept([](const auto& config, const auto& options, config::Recompute) {
      return embedding_kept_bytes(config, options);
    });
    row.deferred_bytes = embedding_deferred_bytes(config_, options_);
    row.temporary_bytes = embedding_temporary_bytes(config_, options_);
    row.operations = embedding_operations(config_, options_);
  }

  void attention(int64_t layer) {
    const std::string block = fmt::format("blocks.{}.", layer);
    table_.push_back({.name = block + "attention", .layer = layer});
    norm(block + "attention_norm", config_.width);
    linear(block + "attention.qkv", config_.width, 3 * config_.width);
    linear(block + "attention.output", config_.width, config_.width);
    head_norms(block + "attention");
    flops(attention_linear_flops(config_), attention_score_flops(config_));
    kept([layer](const auto& config, const auto& options, config::Recompute recompute) {
      return attention_kept_bytes(config, options, recompute) + drop_path_kept_bytes(config, options, layer, recompute);
    });
    table_.back().deferred_bytes = attention_deferred_bytes(config_, options_);
    table_.back().temporary_bytes = attention_temporary_bytes(config_, options_);
    table_.back().operations = attention_operations_[drop_path_of(config_, layer) > 0 ? 1 : 0];
  }

  void ffn(int64_t layer) {
    const std::string block = fmt::format("blocks.{}.", layer);
    table_.push_back({.name = block + "ffn", .layer = layer});
    norm(block + "ffn_norm", config_.width);
    linear(block + "ffn.first", config_.width, config_.ffn_width());
    linear(block + "ffn.second", config_.ffn_width(), config_.width);
    flops(ffn_flops(config_), 0);
    kept([layer](const auto& config, const auto& options, config::Recompute recompute) {
      return ffn_kept_bytes(config, options, recompute) + drop_path_kept_bytes(config, options, layer, recompute);
    });
    table_.back().deferred_bytes = ffn_deferred_bytes(config_, options_);
    table_.back().temporary_bytes = ffn_temporary_bytes(config_, options_);
    table_.back().operations = ffn_operations_[drop_path_of(config_, layer) > 0 ? 1 : 0];
  }

  void head() {
    table_.push_back({.name = "head", .batch_tensors = {"targets", "before", "weights", "mask"}});
    const bool damps = config_.damps_anomaly();
    if (config_.reads_climatology()) table_.back().batch_tensors.emplace_back("climatology");
    if (damps) table_.back().batch_tensors.emplace_back("climatology_before");
    norm("head.norm", config_.width);
    for (int64_t i = 0; i < config_.head_layers; ++i) {
      linear(fmt::format("head.hidden.{}", i), config_.width, config_.width);
    }
    linear("head.output", config_.width, config_.num_outputs() * config_.patch_size());
    if (damps) parameter("head.damping", {config_.num_outputs(), config_.latitudes(), config_.longitudes()});
    flops(head_flops(config_), 0);
    table_.back().temporary_bytes = head_temporary_bytes(config_, options_);
    table_.back().operations = head_operations(config_, options_);
  }

  const ModelConfig& config_;
  const schedule::UnitTableOptions& options_;
  // The same in every layer without, and in every layer with stochastic depth.
  std::array<schedule::Operations, 2> attention_operations_, ffn_operations_;
  schedule::UnitTable table_;
};

}  // namespace

schedule::UnitTable unit_table(const ModelConfig& config, const schedule::UnitTableOptions& options) {
  return TableBuilder(config, options).table();
}

schedule::UnitTable VitDescription::unit_table(const config::Config& config,
                                               const schedule::UnitTableOptions& options) const {
  return vit::unit_table(model_of(config), options);
}

}  // namespace terrace::models::vit
