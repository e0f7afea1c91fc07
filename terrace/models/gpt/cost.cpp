// Parameters and floating-point operations of the GPT.
#include "terrace/models/gpt/cost.h"

namespace terrace::models::gpt {
namespace {

// Elements of the matrices of a block: each is one multiply-add a token.
int64_t block_matrix_weights(const config::ModelConfig& config) {
  const int64_t joint = (config.heads + 2 * config.kv_heads) * config.head_dim * config.width;
  const int64_t output = config.heads * config.head_dim * config.width;
  const int64_t matrices = config.activation == config::Activation::swiglu ? 3 : 2;
  return joint + output + matrices * config.width * config.ffn_width;
}

int64_t block_biases(const config::ModelConfig& config) {
  if (!config.bias) return 0;
  const int64_t first = config.activation == config::Activation::swiglu ? 2 : 1;
  return (config.heads + 2 * config.kv_heads) * config.head_dim + first * config.ffn_width + 2 * config.width;
}

int64_t norm_weights(const config::ModelConfig& config) {
  return config.norm == config::Norm::layernorm && config.bias ? 2 * config.width : config.width;
}

}  // namespace

int64_t parameter_count(const config::ModelConfig& config) {
  const int64_t table = config.padded_vocabulary() * config.width;
  const int64_t positions = config.positions == config::Positions::learned ? config.sequence * config.width : 0;
  const int64_t block = block_matrix_weights(config) + block_biases(config) + 2 * norm_weights(config);
  return (config.tied_head ? 1 : 2) * table + positions + config.layers * block + norm_weights(config);
}

double attention_forward_flops(const config::ModelConfig& config, AttentionCount attention) {
  const double pairs = static_cast<double>(config.sequence) * static_cast<double>(config.sequence) *
                       (attention == AttentionCount::full ? 1.0 : 0.5);
  return 4.0 * static_cast<double>(config.layers * config.heads * config.head_dim) * pairs;
}

double block_forward_flops(const config::ModelConfig& config, AttentionCount attention) {
  const double weights = static_cast<double>(config.layers) * static_cast<double>(block_matrix_weights(config));
  return 2.0 * static_cast<double>(config.sequence) * weights + attention_forward_flops(config, attention);
}

double head_forward_flops(const config::ModelConfig& config) {
  return 2.0 * static_cast<double>(config.sequence) * static_cast<double>(config.width) *
         static_cast<double>(config.padded_vocabulary());
}

double model_flops(const config::ModelConfig& config, int64_t sequences, AttentionCount attention) {
  return 3.0 * static_cast<double>(sequences) * (block_forward_flops(config, attention) + head_forward_flops(config));
}

double hardware_flops(const config::ModelConfig& config, int64_t sequences, AttentionCount attention,
                      config::Recompute recompute) {
  double repeated = 0.0;
  if (recompute == config::Recompute::full) repeated = block_forward_flops(config, attention);
  if (recompute == config::Recompute::selective) repeated = attention_forward_flops(config, attention);
  return model_flops(config, sequences, attention) + static_cast<double>(sequences) * repeated;
}

}  // namespace terrace::models::gpt
