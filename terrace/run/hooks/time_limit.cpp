// Stops a run when train.time_limit is reached, so that it has saved before the machine is taken away.
#include <fmt/format.h>

#include "terrace/base/text/units.h"
#include "terrace/run/hooks/hooks.h"

namespace terrace::run {
namespace {

using Clock = std::chrono::steady_clock;

class TimeLimitHook : public train::Hook {
 public:
  explicit TimeLimitHook(Clock::time_point began) : began_(began) {}

  void after_step(train::Trainer& trainer, const train::StepReport&) override {
    stepped_ = true;
    look_at_clock(trainer);
  }

  // An evaluation before the first step of a start is not cut short: if it took longer than the limit, the run would
  // otherwise never get past it, however often it is resumed.
  void during_evaluation(train::Trainer& trainer) override {
    if (stepped_) look_at_clock(trainer);
  }

 private:
  void look_at_clock(train::Trainer& trainer) const {
    const double limit = trainer.config().train.time_limit;
    if (std::chrono::duration<double>(Clock::now() - began_).count() < limit) return;
    trainer.stop(fmt::format("by train.time_limit = {} s ({})", limit, format_seconds(limit)));
  }

  Clock::time_point began_;
  bool stepped_ = false;
};

}  // namespace

std::unique_ptr<train::Hook> make_time_limit_hook(Clock::time_point began) {
  return std::make_unique<TimeLimitHook>(began);
}

}  // namespace terrace::run
