// Stops a run at a step before its last one, as a search does that continues only its best runs.
#include <fmt/format.h>

#include "terrace/train/hooks/hooks.h"

namespace terrace::train {
namespace {

class StopAfterHook : public Hook {
 public:
  explicit StopAfterHook(int64_t step) : step_(step) {}

  void at_start(Trainer& trainer) override { look_at_step(trainer); }
  void after_step(Trainer& trainer, const StepReport&) override { look_at_step(trainer); }

 private:
  void look_at_step(Trainer& trainer) const {
    if (trainer.steps_done() >= step_) trainer.stop(fmt::format("by --stop-after {}", step_));
  }

  int64_t step_;
};

}  // namespace

std::unique_ptr<Hook> make_stop_after_hook(int64_t step) { return std::make_unique<StopAfterHook>(step); }

}  // namespace terrace::train
