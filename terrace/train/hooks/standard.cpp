// Metrics before evaluation before saving: a checkpoint is complete only when the lines up to it are durable.
#include "terrace/train/hooks/hooks.h"

namespace terrace::train {

void add_standard_hooks(Trainer& trainer) {
  const config::Config& config = trainer.config();
  const auto metrics = std::make_shared<observe::MetricsWriter>(
      config.checkpoint.folder, trainer.steps_done(),
      observe::MetricsFormats{.tensorboard = config.observe.tensorboard, .csv = config.observe.csv});
  trainer.add_hook(make_log_hook(trainer));
  trainer.add_hook(make_metrics_hook(metrics));
  trainer.add_hook(make_evaluate_hook(metrics));
  trainer.add_hook(make_save_hook(trainer, metrics));
}

}  // namespace terrace::train
