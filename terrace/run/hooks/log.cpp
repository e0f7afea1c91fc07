// Shows the progress of a run: loss, gradient norm and rate.
#include "terrace/base/terminal/log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>

#include "terrace/base/terminal/progress.h"
#include "terrace/base/text/units.h"
#include "terrace/config/family.h"
#include "terrace/config/phases.h"
#include "terrace/data/order/batch_ramp.h"
#include "terrace/run/hooks/hooks.h"
#include "terrace/run/idle_stages.h"

namespace terrace::run {
namespace {

class LogHook : public train::Hook {
 public:
  explicit LogHook(const train::Trainer& trainer)
      : progress_("train", static_cast<uint64_t>(trainer.config().train.steps),
                  static_cast<uint64_t>(trainer.steps_done())),
        terminal_(::isatty(STDERR_FILENO) != 0) {}

  void at_start(train::Trainer& trainer) override {
    const config::Config& config = trainer.config();
    const size_t phase = config::phase_at(config, trainer.steps_done());
    if (phase > 0) log_info("the run is in {}", config::phase_name(config, phase));
    if (trainer.all_steps_done()) return;
    announce_phase(trainer);
    log_idle_stages(config, trainer.mesh().size("data"), trainer.steps_done() + 1);
  }

  void after_step(train::Trainer& trainer, const train::StepReport& report) override {
    log_step(trainer, report);
    if (trainer.all_steps_done() || !announce_phase(trainer)) return;
    const int64_t next = trainer.steps_done() + 1;
    const auto lines = [&](int64_t step) { return idle_stages(trainer.config(), trainer.mesh().size("data"), step); };
    if (lines(next) != lines(next - 1)) log_idle_stages(trainer.config(), trainer.mesh().size("data"), next);
  }

  void at_end(train::Trainer&) override { progress_.clear(); }

 private:
  // Says what the next step begins, and returns true, if it is the first one of a phase.
  static bool announce_phase(const train::Trainer& trainer) {
    const config::Config& config = trainer.config();
    const size_t phase = config::phase_at(config, trainer.steps_done() + 1);
    if (phase == config::phase_at(config, trainer.steps_done())) return false;
    log_info("{} begins: {}", config::phase_name(config, phase), config::phase_changes_text(config, phase));
    return true;
  }

  void log_step(const train::Trainer& trainer, const train::StepReport& report) {
    const int64_t steps = trainer.config().train.steps;
    if (report.skipped) {
      const bool configured = data::skipped(trainer.config().train, report.metrics.step);
      log_info("step {} of {} is skipped ({})", report.metrics.step, steps,
               configured ? "train.skip_steps" : "its samples were left out after a spike");
      return;
    }
    const observe::StepMetrics& metrics = report.metrics;
    const std::string text =
        fmt::format("loss {:.4f}, gradient norm {:.3f}, {:.0f} {}/s", metrics.loss, metrics.gradient_norm,
                    metrics.items_per_second, trainer.config().family->items);
    if (terminal_) {
      progress_.update(static_cast<uint64_t>(metrics.step),
                       fmt::format("step {}/{}  {}, {}", metrics.step, steps, text, seen(trainer, metrics)));
    } else if (metrics.step % trainer.config().train.log_every == 0 || metrics.step == steps) {
      const double left = progress_.seconds_left(static_cast<uint64_t>(metrics.step));
      log_info("step {}/{}: {}, learning rate {:.3g}{}{}, {}{}", metrics.step, steps, text, metrics.learning_rate,
               metrics.noise_scale
                   ? fmt::format(", noise scale {:.4g} {}", *metrics.noise_scale, trainer.config().family->samples)
                   : "",
               std::isfinite(metrics.mfu) ? fmt::format(", mfu {:.1f}%", 100 * metrics.mfu) : "",
               seen(trainer, metrics), left > 0 ? fmt::format(", {} left", format_seconds(left)) : "");
    }
  }

  // "1,234,567 tokens (0.42 epochs)", since the beginning of the run.
  static std::string seen(const train::Trainer& trainer, const observe::StepMetrics& metrics) {
    std::string items = fmt::format("{} {}", format_count(metrics.items), trainer.config().family->items);
    const uint64_t in_epoch = trainer.data().samples_in_epoch();
    if (in_epoch == 0) return items;
    return fmt::format("{} ({:.2f} epochs)", items,
                       static_cast<double>(trainer.samples_done()) / static_cast<double>(in_epoch));
  }

  Progress progress_;
  bool terminal_;
};

}  // namespace

std::unique_ptr<train::Hook> make_log_hook(const train::Trainer& trainer) { return std::make_unique<LogHook>(trainer); }

}  // namespace terrace::run
