// The levels of the ramp-up, and the search for the one of a step.
#include "terrace/data/batch_ramp.h"

#include <algorithm>

#include "terrace/base/error.h"

namespace terrace::data {
namespace {

// ceil(samples * part / parts) without leaving 64 bits: samples < 2^50 and part <= parts <= 10^5, so the remainder's
// product stays below 10^10.
int64_t share_rounded_up(int64_t samples, int64_t part, int64_t parts) {
  return samples / parts * part + (samples % parts * part + parts - 1) / parts;
}

}  // namespace

BatchRamp::BatchRamp(const config::TrainConfig& config) {
  int64_t step = 1, drawn = 0;
  if (config.ramp_start > 0) {
    const int64_t increments = (config.global_batch - config.ramp_start) / config.ramp_increment;
    for (int64_t k = 0; k < increments; ++k) {
      const int64_t batch = config.ramp_start + k * config.ramp_increment;
      const int64_t end = share_rounded_up(config.ramp_samples, k + 1, increments);
      if (drawn >= end) continue;  // a step of the size before reached beyond the whole share
      const int64_t steps = (end - drawn + batch - 1) / batch;
      levels_.push_back({step, batch, drawn});
      step += steps;
      drawn += steps * batch;
    }
  }
  levels_.push_back({step, config.global_batch, drawn});
}

const BatchRamp::Level& BatchRamp::level_of(int64_t step) const {
  TERRACE_CHECK(step >= 1, "step {}; the first is 1", step);
  const auto after = std::upper_bound(levels_.begin(), levels_.end(), step,
                                      [](int64_t s, const Level& level) { return s < level.first_step; });
  return *(after - 1);
}

int64_t BatchRamp::batch_size(int64_t step) const { return level_of(step).batch; }

int64_t BatchRamp::samples_before(int64_t step) const {
  const Level& level = level_of(step);
  return level.samples_before + (step - level.first_step) * level.batch;
}

bool skipped(const config::TrainConfig& config, int64_t step) {
  return std::any_of(config.skip_steps.begin(), config.skip_steps.end(),
                     [&](const auto& range) { return range.first <= step && step <= range.second; });
}

}  // namespace terrace::data
