// Adds the hooks of every run in the right order. Metrics come before saving, since a checkpoint is complete only when
// the lines of the steps up to it are durable. Saving comes before evaluation, which may take long: if the process ends
// during the evaluation, the run continues from the evaluated step.
#include "terrace/run/hooks/hooks.h"

namespace terrace::run {

void add_standard_hooks(train::Trainer& trainer, std::chrono::steady_clock::time_point began, comm::World* world) {
  const config::Config& config = trainer.config();
  if (trainer.mesh().size() > 1) trainer.add_hook(make_watch_hook());
  const bool copies = world != nullptr && config.checkpoint.memory_every > 0;
  if (trainer.rank() != 0) {
    // All ranks save and evaluate together; only the first rank logs and writes metrics.
    trainer.add_hook(make_save_hook(trainer, {}));
    if (copies) trainer.add_hook(make_memory_hook(trainer, {}, *world));
    trainer.add_hook(make_evaluate_hook({}));
    return;
  }
  const auto metrics =
      std::make_shared<observe::MetricsWriter>(config.checkpoint.folder, trainer.steps_done(),
                                               observe::MetricsFormats{.tensorboard = config.observe.tensorboard,
                                                                       .csv = config.observe.csv,
                                                                       .datasets = trainer.data().held_out_datasets(),
                                                                       .names = trainer.metric_names()});
  trainer.add_hook(make_log_hook(trainer));
  trainer.add_hook(make_shared_cores_hook());
  trainer.add_hook(make_dead_outputs_hook(trainer));
  trainer.add_hook(make_metrics_hook(metrics));
  trainer.add_hook(make_peak_hook(trainer));
  trainer.add_hook(make_save_hook(trainer, metrics));
  if (copies) trainer.add_hook(make_memory_hook(trainer, metrics, *world));
  if (trainer.config().train.time_limit > 0) trainer.add_hook(make_time_limit_hook(began));
  trainer.add_hook(make_evaluate_hook(metrics));
}

}  // namespace terrace::run
