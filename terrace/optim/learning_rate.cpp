// Computes the warm-up and the four decays.
#include "terrace/optim/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "terrace/base/error.h"

namespace terrace::optim {
namespace {

// The share of the steps from `first` to `last` that is done, in [0, 1].
double share_done(int64_t step, int64_t first, int64_t last) {
  if (step >= last) return 1;
  if (step <= first) return 0;
  return static_cast<double>(step - first) / static_cast<double>(last - first);
}

}  // namespace

double learning_rate(const config::OptimizerConfig& config, int64_t total_steps, int64_t step) {
  TERRACE_CHECK(step >= 1, "step {}; the first step is 1", step);
  const double peak = config.learning_rate, lowest = config.min_learning_rate;
  const int64_t warmup = config.warmup_steps;
  if (step <= warmup) return peak * static_cast<double>(step) / static_cast<double>(warmup);
  const int64_t decay_end = config.decay_steps == 0 ? total_steps : config.decay_steps;
  switch (config.schedule) {
    case config::Decay::constant:
      return peak;
    case config::Decay::linear:
      return peak + (lowest - peak) * share_done(step, warmup, decay_end);
    case config::Decay::cosine:
      return lowest + (peak - lowest) * (1 + std::cos(std::numbers::pi * share_done(step, warmup, decay_end))) / 2;
    case config::Decay::wsd:
      return peak + (lowest - peak) * share_done(step, total_steps - config.decay_steps, total_steps);
  }
  TERRACE_CHECK(false, "unknown schedule {}", static_cast<int>(config.schedule));
}

}  // namespace terrace::optim
