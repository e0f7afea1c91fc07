// Sizes that a laptop trains in a moment.
#include "terrace/verify/shrink.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "terrace/config/key.h"
#include "terrace/plan/rank_share.h"

namespace terrace::verify {
namespace {

constexpr int64_t most_width = 96, most_layers = 2, most_sequence = 32, most_vocabulary = 256;
constexpr int64_t most_micro_batch = 2, most_micro_batches = 3;
constexpr double most_loss_scale = 1024;  // far from an overflow, whose steps would compare nothing

int64_t in_proportion(int64_t size, int64_t now, int64_t before) {
  return std::max<int64_t>(
      1, std::llround(static_cast<double>(size) * static_cast<double>(now) / static_cast<double>(before)));
}

int64_t rounded_up(int64_t size, int64_t multiple) { return (size + multiple - 1) / multiple * multiple; }

// Query heads per key head stay as they are, with two key heads, or one for each tensor rank, where there were more.
void shrink_width(config::ModelConfig& model, int64_t tensor) {
  if (model.width <= most_width) return;
  const config::ModelConfig before = model;
  model.kv_heads = std::min(before.kv_heads, std::max<int64_t>(2, tensor));
  model.heads = before.heads / before.kv_heads * model.kv_heads;
  // A multiple of 8 suits rotary positions and the kernels.
  const int64_t head_dim = std::max<int64_t>(8, most_width / 2 / model.heads / 8 * 8);
  model.head_dim = std::min(before.head_dim, head_dim);
  model.width = in_proportion(before.width, model.heads * model.head_dim, before.heads * before.head_dim);
  model.ffn_width = rounded_up(in_proportion(before.ffn_width, model.width, before.width), tensor);
}

void shrink_vocabulary(config::ModelConfig& model, int64_t tensor) {
  if (model.padded_vocabulary() <= most_vocabulary) return;
  const bool padded = model.padded_vocabulary() != model.vocabulary;
  model.vocabulary_multiple = std::lcm(std::min<int64_t>(model.vocabulary_multiple, 64), tensor);
  const int64_t rows =
      std::max(model.vocabulary_multiple, most_vocabulary / model.vocabulary_multiple * model.vocabulary_multiple);
  model.vocabulary = padded ? rows - model.vocabulary_multiple / 3 : rows;
}

void shrink_batch(config::TrainConfig& train, int64_t ranks) {
  const int64_t share = train.global_batch / ranks, micro_batch = plan::micro_batch_of(train, ranks);
  const int64_t micro_batches = std::min(share / micro_batch, most_micro_batches);
  train.micro_batch = std::min(micro_batch, most_micro_batch);
  train.global_batch = ranks * micro_batches * train.micro_batch;
  train.ramp_start = train.ramp_increment = train.ramp_samples = 0;
}

// At 1e-8 a gradient that is zero in exact arithmetic, that of a key bias, turns noise into steps. The error of 16 bits
// is larger, and an epsilon below it would let a few gradients near zero decide about a whole tensor.
void settle_optimizer(config::OptimizerConfig& optimizer, bool sixteen_bits) {
  optimizer.epsilon = std::max(optimizer.epsilon, sixteen_bits ? 1e-2 : 1e-4);
  optimizer.schedule = config::Decay::constant;
  optimizer.warmup_steps = optimizer.decay_steps = 0;
  optimizer.min_learning_rate = 0;
}

}  // namespace

bool travels_in_bf16(const config::LayoutConfig& layout) {
  return std::ranges::count(std::array{layout.gather_type, layout.reduce_type, layout.update_type},
                            config::WireType::bf16) > 0;
}

config::Config shrunk(const config::Config& config, int64_t ranks, int64_t steps) {
  config::Config small = config;
  // A unit for each part; the split by cost is another for other layers.
  const int64_t parts = config.layout.pipeline * config.layout.chunks;
  small.model.layers = std::min(config.model.layers, std::max(most_layers, parts - 1));
  if (small.model.layers != config.model.layers) small.layout.stage_layers.clear();
  small.model.sequence = std::min(config.model.sequence, most_sequence);
  const int64_t tensor = config.layout.tensor;
  if (config.layout.sequence_parallel) small.model.sequence = rounded_up(small.model.sequence, tensor);
  shrink_width(small.model, tensor);
  shrink_vocabulary(small.model, tensor);
  shrink_batch(small.train, ranks / tensor / config.layout.pipeline);
  small.train.steps = steps;
  if (small.train.device == "cuda") small.train.device = "cpu";
  if (config.train.precision == config::Precision::fp16) {
    small.train.initial_loss_scale = std::min(config.train.initial_loss_scale, most_loss_scale);
  }
  settle_optimizer(small.optimizer,
                   config.train.precision != config::Precision::fp32 || travels_in_bf16(config.layout));
  return small;
}

std::vector<KeyChange> key_changes(const config::Config& from, const config::Config& to) {
  std::vector<KeyChange> changes;
  for (const config::Key& key : config::keys()) {
    const std::string before = key.write(from), after = key.write(to);
    if (before != after) changes.push_back({key.full_name(), before, after});
  }
  return changes;
}

}  // namespace terrace::verify
