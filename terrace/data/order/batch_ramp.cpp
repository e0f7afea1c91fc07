// Computes the intervals of equal batch size, and finds the interval of a step.
#include "terrace/data/order/batch_ramp.h"

#include <algorithm>

#include "terrace/base/error.h"

namespace terrace::data {
namespace {

// ceil(samples * part / parts) without overflow of 64 bits: samples < 2^50 and part <= parts <= 10^5, so the product
// with the remainder stays below 10^10.
int64_t share_rounded_up(int64_t samples, int64_t part, int64_t parts) {
  return samples / parts * part + (samples % parts * part + parts - 1) / parts;
}

}  // namespace

BatchRamp::BatchRamp(const config::TrainConfig& config, const std::vector<config::Phase>& phases) {
  int64_t step = 1, drawn = 0;
  if (config.ramp_start > 0) {
    const int64_t increments = (config.global_batch - config.ramp_start) / config.ramp_increment;
    for (int64_t k = 0; k < increments; ++k) {
      const int64_t batch = config.ramp_start + k * config.ramp_increment;
      const int64_t end = share_rounded_up(config.ramp_samples, k + 1, increments);
      if (drawn >= end) continue;  // the last step of the previous size has drawn this share already
      const int64_t steps = (end - drawn + batch - 1) / batch;
      intervals_.push_back({step, batch, drawn});
      step += steps;
      drawn += steps * batch;
    }
  }
  intervals_.push_back({step, config.global_batch, drawn});
  int64_t batch = config.global_batch;
  for (const config::Phase& phase : phases) {
    if (phase.global_batch == batch) continue;
    batch = phase.global_batch;
    const SizeInterval from_here{phase.from_step, batch, samples_before(phase.from_step)};
    std::erase_if(intervals_, [&](const SizeInterval& interval) { return interval.first_step >= phase.from_step; });
    intervals_.push_back(from_here);
  }
}

const BatchRamp::SizeInterval& BatchRamp::interval_of(int64_t step) const {
  TERRACE_CHECK(step >= 1, "step {}; the first is 1", step);
  const auto after = std::upper_bound(intervals_.begin(), intervals_.end(), step,
                                      [](int64_t s, const SizeInterval& interval) { return s < interval.first_step; });
  return *(after - 1);
}

int64_t BatchRamp::batch_size(int64_t step) const { return interval_of(step).batch; }

int64_t BatchRamp::samples_before(int64_t step) const {
  const SizeInterval& interval = interval_of(step);
  return interval.samples_before + (step - interval.first_step) * interval.batch;
}

bool skipped(const config::TrainConfig& config, int64_t step) {
  return std::any_of(config.skip_steps.begin(), config.skip_steps.end(),
                     [&](const auto& range) { return range.first <= step && step <= range.second; });
}

}  // namespace terrace::data
