// Reduces the sizes of a configuration so that a laptop trains it in a moment.
#include "terrace/verify/shrink.h"

#include <algorithm>
#include <array>

#include "terrace/config/family.h"
#include "terrace/schedule/rank_share.h"

namespace terrace::verify {
namespace {

constexpr int64_t most_micro_batch = 2, most_micro_batches = 3;
constexpr double most_loss_scale = 1024;  // avoids overflows, since a skipped step compares nothing

void shrink_batch(config::Config& config, int64_t ranks) {
  config::TrainConfig& train = config.train;
  const int64_t share = train.global_batch / ranks, micro_batch = schedule::micro_batch_of(config, ranks);
  const int64_t micro_batches = std::min(share / micro_batch, most_micro_batches);
  train.micro_batch = std::min(micro_batch, most_micro_batch);
  train.micro_batch_sizes.clear();
  train.global_batch = ranks * micro_batches * train.micro_batch;
  train.ramp_start = train.ramp_increment = train.ramp_samples = 0;
}

// With an epsilon of 1e-8, AdamW turns rounding noise into steps for a gradient that is zero in exact arithmetic, such
// as that of a key bias. With an epsilon below the gradients, a few of these near zero dominate the error of a whole
// tensor, which is then a matter of luck: with 1e-4, a third of all seeds of a small GPT on two ranks had a tensor with
// more than twice the error of one rank, and with 1e-2 none.
void use_constant_rate_and_large_epsilon(config::OptimizerConfig& optimizer) {
  optimizer.epsilon = std::max(optimizer.epsilon, 1e-2);
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
  small.phases.clear();  // the layout is the same in all of them
  config.family->settings.shrink(small);
  // stage_layers does not fit another number of layers; without the key, layers are divided by cost. One layer of each
  // stage stands for the layers that are recomputed.
  if (config.family->settings.layers(small) != config.family->settings.layers(config)) {
    small.layout.stage_layers.clear();
    config::RecomputeLayers& recomputed = small.layout.recompute_layers;
    if (recomputed.word != config::RecomputeLayers::Word::all) {
      recomputed = {.word = config::RecomputeLayers::Word::numbers, .numbers = {1}};
    }
  }
  small.layout.outer_every = 0;  // what is compared sums gradients over all ranks in every step
  shrink_batch(small, ranks / config.layout.ranks_of_samples());
  small.train.steps = steps;
  if (config.train.precision == config::Precision::fp16) {
    small.train.initial_loss_scale = std::min(config.train.initial_loss_scale, most_loss_scale);
  }
  use_constant_rate_and_large_epsilon(small.optimizer);
  return small;
}

std::vector<KeyChange> key_changes(const config::Config& from, const config::Config& to) {
  std::vector<KeyChange> changes;
  for (const config::Key& key : config::keys_of(to.family)) {
    const std::string before = key.write(from), after = key.write(to);
    if (before != after) changes.push_back({key.full_name(), before, after});
  }
  return changes;
}

}  // namespace terrace::verify
