// Saves at the configured steps and at the end.
#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

#include "terrace/base/log.h"
#include "terrace/checkpoint/checkpoint.h"
#include "terrace/checkpoint/folder.h"
#include "terrace/ops/record.h"
#include "terrace/optim/kernels.h"
#include "terrace/train/hooks/hooks.h"

namespace terrace::train {
namespace {

class SaveHook : public Hook {
 public:
  SaveHook(const Trainer& trainer, SharedMetrics metrics) : metrics_(std::move(metrics)) {
    const auto newest = checkpoint::newest(trainer.config().checkpoint.folder);
    if (newest) saved_step_ = checkpoint::step_of(*newest).value();
  }

  void after_step(Trainer& trainer, const StepReport& report) override {
    const int64_t every = trainer.config().checkpoint.every;
    if (every > 0 && report.metrics.step % every == 0) save(trainer);
  }

  void at_end(Trainer& trainer) override {
    if (saved_step_ != trainer.steps_done()) save(trainer);
  }

 private:
  void save(Trainer& trainer) {
    const ops::PhaseRecord record("save");
    const config::CheckpointConfig& config = trainer.config().checkpoint;
    check_finite(trainer);
    metrics_->sync();
    const auto path =
        checkpoint::save(config.folder, trainer.state(), {.keep = config.keep, .keep_every = config.keep_every});
    saved_step_ = trainer.steps_done();
    log_info("checkpoint {}", path.string());
  }

  // A checkpoint of broken weights must not push a good one out.
  static void check_finite(Trainer& trainer) {
    for (const optim::AdamW::Slot& slot : trainer.optimizer().slots()) {
      if (std::isfinite(optim::squares_by_piece(slot.master.detach()).sum().item<double>())) continue;
      throw std::runtime_error(fmt::format(
          "step {}: the weights of {} are not finite; nothing is saved, and earlier checkpoints stay as they are. "
          "Continue from one with --resume and a lower optimizer.learning_rate",
          trainer.steps_done(), slot.parameter->name));
    }
  }

  SharedMetrics metrics_;
  int64_t saved_step_ = -1;
};

}  // namespace

std::unique_ptr<Hook> make_save_hook(const Trainer& trainer, SharedMetrics metrics) {
  return std::make_unique<SaveHook>(trainer, std::move(metrics));
}

}  // namespace terrace::train
