// Warns of outputs that have the same value for all inputs.
#include <cmath>
#include <string>
#include <vector>

#include "terrace/base/terminal/log.h"
#include "terrace/run/hooks/hooks.h"

namespace terrace::run {
namespace {

// A network whose last layer begins at 0 has such outputs in its first step, and one step's labels may hardly differ.
constexpr int64_t steps_on_end = 20;

class DeadOutputsHook : public train::Hook {
 public:
  explicit DeadOutputsHook(const train::Trainer& trainer) {
    for (const observe::Figure& figure : trainer.figures()) {
      if (figure.in_steps) outputs_.push_back({.name = observe::output_of_spread(figure.name)});
    }
  }

  void after_step(train::Trainer& trainer, const train::StepReport& report) override {
    const std::vector<double>& figures = report.metrics.figures;
    if (report.skipped || figures.size() != outputs_.size()) return;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      Output& output = outputs_[i];
      // A micro-batch with one label has no spread.
      if (output.name.empty() || std::isnan(figures[i])) continue;
      output.steps = figures[i] < observe::least_spread ? output.steps + 1 : 0;
      const bool is_last = trainer.all_steps_done() && output.steps > steps_on_end;
      if (output.steps != steps_on_end && !is_last) continue;
      log_warning("{} steps up to {}: {}", output.steps, report.metrics.step, observe::dead_output_text(output.name));
    }
  }

 private:
  struct Output {
    std::string name = {};  // "": a figure that is no spread
    int64_t steps = 0;      // the number of steps on end without a spread
  };
  std::vector<Output> outputs_;
};

}  // namespace

std::unique_ptr<train::Hook> make_dead_outputs_hook(const train::Trainer& trainer) {
  return std::make_unique<DeadOutputsHook>(trainer);
}

}  // namespace terrace::run
