// Records the operations of a few steps and reports what they cost.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "terrace/base/terminal/log.h"
#include "terrace/profile/operation_recorder.h"
#include "terrace/run/hooks/hooks.h"

namespace terrace::run {
namespace {

class ProfileHook : public train::Hook {
 public:
  ProfileHook(const train::Trainer& trainer, int64_t steps, std::function<void(const Profile&)> report,
              const profile::RankThreads* threads)
      : first_step_(trainer.steps_done() + profile_warm_up + 1),
        last_step_(first_step_ + steps - 1),
        report_(std::move(report)),
        threads_(threads) {}

  void after_step(train::Trainer& trainer, const train::StepReport& report) override {
    if (report.metrics.step == first_step_ - 1) {
      begin(trainer);
    } else if (report.metrics.step == last_step_) {
      finish(trainer);
    }
  }

  void at_end(train::Trainer& trainer) override {
    if (trainer.steps_done() >= first_step_ && trainer.steps_done() < last_step_) finish(trainer);
  }

 private:
  // Called where a recording begins and ends, so that the steps of every rank are recorded whole.
  static void synchronize(train::Trainer& trainer) { trainer.any_rank(false, "profile"); }

  void begin(train::Trainer& trainer) {
    if (trainer.rank() == 0) {
      log_info("profiling steps {} to {}", first_step_, last_step_);
      recorder_.emplace(trainer.device(), threads_);
    }
    synchronize(trainer);
  }

  void finish(train::Trainer& trainer) {
    synchronize(trainer);
    if (!recorder_) return;
    const observe::Trace trace = recorder_->finish();
    recorder_.reset();
    Profile profile{.first_step = first_step_, .last_step = trainer.steps_done()};
    profile.operations = observe::count_operations(trace);
    profile.trace = std::filesystem::path(trainer.config().checkpoint.folder) /
                    fmt::format("trace_{}_to_{}.json", profile.first_step, profile.last_step);
    observe::write_chrome_trace(trace, profile.trace);
    if (profile.last_step < last_step_)
      log_warning("the run ended before step {}, the last one to be profiled", last_step_);
    if (report_) report_(profile);
  }

  int64_t first_step_, last_step_;
  std::function<void(const Profile&)> report_;
  const profile::RankThreads* threads_;
  std::optional<profile::OperationRecorder> recorder_;
};

}  // namespace

std::unique_ptr<train::Hook> make_profile_hook(const train::Trainer& trainer, int64_t steps,
                                               std::function<void(const Profile&)> report,
                                               const profile::RankThreads* threads) {
  return std::make_unique<ProfileHook>(trainer, steps, std::move(report), threads);
}

}  // namespace terrace::run
