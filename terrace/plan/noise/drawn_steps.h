// Draws steps with the noise of a machine.
#pragma once

#include <cstdint>
#include <vector>

#include "terrace/plan/noise/noisy_step.h"

namespace terrace::plan {

struct DrawnSteps {
  std::vector<double> seconds = {};  // of each step, in ascending order
  double mean_seconds = 0;
  NoiseCosts costs = {};

  // The seconds that a share of the steps take at most, with interpolation between two steps: 0.5 for the median.
  double quantile(double share) const;
};

// Draws so many steps with so many threads; 0: one for each core. The same seed gives the same steps with any number of
// threads.
// Each step draws every computation of every replica, and of each computation the largest of the times of the tensor
// ranks at once.
DrawnSteps draw_steps(const NoisyStep& step, int64_t draws, uint64_t seed, unsigned threads = 0);

}  // namespace terrace::plan
