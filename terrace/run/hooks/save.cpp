// Saves checkpoints at the configured steps, in the background, and at the end of a run.
#include <memory>

#include "terrace/base/error.h"
#include "terrace/base/terminal/log.h"
#include "terrace/checkpoint/background.h"
#include "terrace/checkpoint/folder.h"
#include "terrace/profile/record.h"
#include "terrace/run/hooks/before_write.h"
#include "terrace/run/hooks/hooks.h"

namespace terrace::run {
namespace {

class SaveHook : public train::Hook {
 public:
  SaveHook(train::Trainer& trainer, SharedMetrics metrics)
      : metrics_(std::move(metrics)), config_(trainer.config().checkpoint), ranks_(trainer.saving_group()) {
    // Either all ranks save or none, but on a shared file system ranks may see different checkpoints for a moment.
    const auto newest = trainer.rank() == 0 ? checkpoint::newest(config_.folder) : std::nullopt;
    saved_step_ = trainer.of_first_rank(newest ? checkpoint::step_of(*newest).value() : -1, "newest checkpoint");
    if (config_.saves_beside_training()) {
      background_ = std::make_unique<checkpoint::BackgroundSaver>(checkpoint::BackgroundSaver::Options{
          .folder = config_.folder,
          .retention = retention(),
          .staging = config_.staging,
          .before_write = [this](const checkpoint::State& state) { before_write(state, metrics_); },
          .ranks = &trainer.saving_group()});
    }
  }

  void after_step(train::Trainer& trainer, const train::StepReport& report) override {
    if (background_ && trainer.any_rank(background_->broken(), "broken weights")) background_->finish();
    if (config_.every == 0 || report.metrics.step % config_.every != 0) return;
    const profile::PhaseRecord record("save");
    if (background_) return background_->save(trainer.state());
    try {
      save(trainer.state());
    } catch (const UserError& error) {
      ++failures_;
      if (metrics_) log_warning("{}. The run continues and saves again at its next checkpoint", error.what());
    }
  }

  void finish_background_work() override {
    if (!background_) return;
    background_->finish();
    saved_step_ = std::max(saved_step_, background_->saved_step());
  }

  void at_end(train::Trainer& trainer) override {
    finish_background_work();
    // Training is over, so this save needs no copy of the state, and its failure is that of the run.
    if (saved_step_ != trainer.steps_done()) save(trainer.state());
    const int64_t failures = failures_ + (background_ ? background_->failures() : 0);
    if (failures > 0 && metrics_) {
      log_warning("checkpoints during training that could not be saved: {}; the last one, of step {}, is complete",
                  failures, saved_step_);
    }
  }

 private:
  checkpoint::Retention retention() const { return {.keep = config_.keep, .keep_every = config_.keep_every}; }

  void save(const checkpoint::State& state) {
    before_write(state, metrics_);
    const std::string path = checkpoint::save(config_.folder, state, retention(), ranks_).string();
    if (metrics_) log_info("checkpoint {}", path);
    saved_step_ = state.step;
  }

  SharedMetrics metrics_;
  config::CheckpointConfig config_;
  comm::Comm& ranks_;
  int64_t saved_step_ = -1, failures_ = 0;
  std::unique_ptr<checkpoint::BackgroundSaver> background_;  // destroyed first: its thread uses the members above
};

}  // namespace

std::unique_ptr<train::Hook> make_save_hook(train::Trainer& trainer, SharedMetrics metrics) {
  return std::make_unique<SaveHook>(trainer, std::move(metrics));
}

}  // namespace terrace::run
