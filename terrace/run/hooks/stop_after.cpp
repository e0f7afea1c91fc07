// Stops a run at a step before its last one, as a search does that continues only its best runs.
#include <fmt/format.h>

#include "terrace/run/hooks/hooks.h"

namespace terrace::run {
namespace {

class StopAfterHook : public train::Hook {
 public:
  explicit StopAfterHook(int64_t step) : step_(step) {}

  void at_start(train::Trainer& trainer) override { look_at_step(trainer); }
  void after_step(train::Trainer& trainer, const train::StepReport&) override { look_at_step(trainer); }

 private:
  void look_at_step(train::Trainer& trainer) const {
    if (trainer.steps_done() >= step_) trainer.stop(fmt::format("by --stop-after {}", step_));
  }

  int64_t step_;
};

}  // namespace

std::unique_ptr<train::Hook> make_stop_after_hook(int64_t step) { return std::make_unique<StopAfterHook>(step); }

}  // namespace terrace::run
