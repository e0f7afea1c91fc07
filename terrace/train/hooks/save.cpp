// Saves at the configured steps and at the end.
#include "terrace/base/log.h"
#include "terrace/checkpoint/checkpoint.h"
#include "terrace/train/hooks/hooks.h"

namespace terrace::train {
namespace {

class SaveHook : public Hook {
 public:
  SaveHook(const Trainer& trainer, SharedMetrics metrics)
      : metrics_(std::move(metrics)), saved_step_(trainer.steps_done()) {}

  void after_step(Trainer& trainer, const StepReport& report) override {
    const int64_t every = trainer.config().checkpoint.every;
    if (every > 0 && report.metrics.step % every == 0) save(trainer);
  }

  void at_end(Trainer& trainer) override {
    if (saved_step_ != trainer.steps_done()) save(trainer);
  }

 private:
  void save(Trainer& trainer) {
    const config::CheckpointConfig& config = trainer.config().checkpoint;
    metrics_->sync();
    const auto path =
        checkpoint::save(config.folder, trainer.state(), {.keep = config.keep, .keep_every = config.keep_every});
    saved_step_ = trainer.steps_done();
    log_info("checkpoint {}", path.string());
  }

  SharedMetrics metrics_;
  int64_t saved_step_;
};

}  // namespace

std::unique_ptr<Hook> make_save_hook(const Trainer& trainer, SharedMetrics metrics) {
  return std::make_unique<SaveHook>(trainer, std::move(metrics));
}

}  // namespace terrace::train
