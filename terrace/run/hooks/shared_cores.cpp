// Warns where other work on the machine takes the cores that a run computes on.
#include <fmt/format.h>

#include <chrono>

#include "terrace/base/system/core_wait.h"
#include "terrace/base/terminal/log.h"
#include "terrace/run/hooks/hooks.h"

namespace terrace::run {
namespace {

using Clock = std::chrono::steady_clock;

// A look at the counts costs about 20 microseconds a thread. The first comes soon, for short runs.
constexpr auto first_look = std::chrono::seconds(5), look_every = std::chrono::seconds(60);
// Threads of an idle machine wait for less than a hundredth of their time.
constexpr double least_share = 0.1, least_change = 0.2;

class SharedCoresHook : public train::Hook {
 public:
  void at_start(train::Trainer&) override { begin(first_look); }

  void after_step(train::Trainer& trainer, const train::StepReport&) override {
    if (Clock::now() < next_look_ || trainer.clock() != nullptr) return;
    look();
    begin(look_every);
  }

 private:
  void begin(Clock::duration period) {
    before_ = core_time();
    next_look_ = Clock::now() + period;
  }

  void look() {
    const double share = waited_share(before_, core_time());
    if (share < least_share || share < said_share_ + least_change) return;
    said_share_ = share;
    log_warning(
        "cores are shared: the threads of this run waited {:.0f}% of their time for a core, since other work runs "
        "there (terrace doctor names it) or the run has more threads than cores",
        100 * share);
  }

  CoreTime before_;
  Clock::time_point next_look_;
  double said_share_ = 0;
};

}  // namespace

std::unique_ptr<train::Hook> make_shared_cores_hook() { return std::make_unique<SharedCoresHook>(); }

}  // namespace terrace::run
