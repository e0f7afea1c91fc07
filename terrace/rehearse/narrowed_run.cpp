// Narrows a configuration and gives it a family whose data are random and whose units cost what the wide ones cost.
#include "terrace/rehearse/narrowed_run.h"

#include <algorithm>

#include "terrace/base/error.h"
#include "terrace/schedule/description.h"

namespace terrace::rehearse {
namespace {

constexpr double most_loss_scale = 1024;  // avoids overflows, since a skipped step compares nothing

// Every update of a rehearsal is one at the full learning rate, so that losses after it depend on it.
void use_constant_rate(config::OptimizerConfig& optimizer) {
  optimizer.schedule = config::Decay::constant;
  optimizer.warmup_steps = optimizer.decay_steps = 0;
  optimizer.min_learning_rate = 0;
}

void set_run(config::Config& config, const NarrowOptions& options) {
  config::TrainConfig& train = config.train;
  train.steps = options.steps;
  train.ramp_start = train.ramp_increment = train.ramp_samples = 0;
  train.skip_steps.clear();
  train.noise_scale_every = 0;
  train.initial_weights.clear();
  train.log_every = 1;
  train.evaluate_every = options.evaluates ? 1 : 0;
  if (train.precision == config::Precision::fp16) {
    train.initial_loss_scale = std::min(train.initial_loss_scale, most_loss_scale);
  }
  if (config.layout.outer_every > 0) config.layout.outer_every = options.steps;  // copies meet at the end
  config.checkpoint.folder = options.folder.string();
  config.checkpoint.every = 0;  // at the end
  config.checkpoint.keep_every = 0;
  config.checkpoint.staging.clear();
  if (options.copies_in_memory && config.checkpoint.memory_every == 0) config.checkpoint.memory_every = 1;
  config.observe = {};
}

}  // namespace

NarrowedRun::NarrowedRun(const plan::PlannedRun& planned, const NarrowOptions& options)
    : data_(data::data_of_family(planned.config)),
      description_(schedule::description_of(planned.config), schedule::unit_table(planned.config)),
      family_(*planned.config.family),
      config_(planned.config) {
  config::Config& config = config_;
  config.phases.clear();  // the layout is the same in all of them
  if (family_.settings.narrow != nullptr) family_.settings.narrow(config, options.width);
  family_.data = &data_;
  family_.description = &description_;
  config.family = &family_;
  config.layout.ranks_per_node = planned.mesh.topology().ranks_per_node;
  config.layout.check_calls = true;
  config.train.device = "cpu";
  config.train.threads = 1;
  use_constant_rate(config.optimizer);
  set_run(config, options);
}

config::Config on_one_rank(const config::Config& narrowed, int64_t micro_batch) {
  config::Config one = narrowed;
  one.layout = {};
  one.train.micro_batch = micro_batch;
  one.train.micro_batch_sizes.clear();
  one.train.recompute = config::Recompute::none;
  return one;
}

}  // namespace terrace::rehearse
