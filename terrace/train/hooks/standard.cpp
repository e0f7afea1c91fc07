// Metrics before saving: a checkpoint is complete only when the lines of the steps up to it are durable. Saving before
// evaluation, which may take long: whatever ends the process meanwhile, the run continues from the step evaluated.
#include "terrace/train/hooks/hooks.h"

namespace terrace::train {

void add_standard_hooks(Trainer& trainer, std::chrono::steady_clock::time_point began) {
  const config::Config& config = trainer.config();
  if (trainer.rank() != 0) {
    // What all ranks do together; only the first one logs and writes metrics.
    trainer.add_hook(make_save_hook(trainer, {}));
    trainer.add_hook(make_evaluate_hook({}));
    return;
  }
  const auto metrics =
      std::make_shared<observe::MetricsWriter>(config.checkpoint.folder, trainer.steps_done(),
                                               observe::MetricsFormats{.tensorboard = config.observe.tensorboard,
                                                                       .csv = config.observe.csv,
                                                                       .corpora = trainer.data().held_out_corpora(),
                                                                       .names = trainer.metric_names()});
  trainer.add_hook(make_log_hook(trainer));
  trainer.add_hook(make_metrics_hook(metrics));
  trainer.add_hook(make_peak_hook(trainer));
  trainer.add_hook(make_save_hook(trainer, metrics));
  if (trainer.config().train.time_limit > 0) trainer.add_hook(make_time_limit_hook(began));
  trainer.add_hook(make_evaluate_hook(metrics));
}

}  // namespace terrace::train
