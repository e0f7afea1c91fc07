// What of a GPT can be said by unit without computing: parameters, sizes, costs, memory.
#include "terrace/models/gpt/cost.h"
#include "terrace/models/gpt/model.h"
#include "terrace/models/key_value_cache.h"

namespace terrace::models::gpt {

std::vector<nn::Parameter*> Gpt::unit_parameters(int64_t unit) {
  if (unit == 0) return embedding_.parameters();
  return unit <= config_.layers ? blocks_.at(unit - 1)->parameters() : head_.parameters();
}

std::vector<int64_t> Gpt::used_units(int64_t unit) {
  const bool reads_embedding = unit == num_units() - 1 && head_.output == nullptr;
  return reads_embedding ? std::vector<int64_t>{0, unit} : std::vector<int64_t>{unit};
}

std::vector<int64_t> Gpt::hidden_sizes(int64_t, const Batch& batch) const {
  return {batch.tokens.size(0), batch.tokens.size(1), config_.width};
}

at::TensorOptions Gpt::hidden_options() const { return at::TensorOptions().device(build_.device).dtype(build_.type); }

std::vector<double> Gpt::unit_costs() const {
  std::vector<double> costs(
      static_cast<size_t>(num_units()),
      block_forward_flops(config_, AttentionCount::causal_half) / static_cast<double>(config_.layers));
  costs.front() = 0;  // a look-up
  costs.back() = head_forward_flops(config_);
  return costs;
}

double Gpt::step_flops(int64_t sequences) const { return model_flops(config_, sequences, AttentionCount::full); }

int64_t Gpt::activation_bytes(int64_t unit, const ActivationOptions& options) const {
  if (unit == 0) return embedding_activation_bytes(config_, options);
  return unit <= config_.layers ? block_activation_bytes(config_, options) : 0;
}

int64_t Gpt::weight_input_bytes(int64_t unit, const ActivationOptions& options) const {
  if (unit == 0) return embedding_weight_input_bytes(config_, options);
  return unit <= config_.layers ? block_weight_input_bytes(config_, options) : 0;
}

std::unique_ptr<KeyValueCache> Gpt::make_cache(int64_t batch, int64_t length) {
  return std::make_unique<KeyValueCache>(config_.layers, batch, config_.kv_heads, length, config_.head_dim,
                                         hidden_options());
}

}  // namespace terrace::models::gpt
