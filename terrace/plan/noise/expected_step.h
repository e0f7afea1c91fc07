// The expected time of a step with the noise of a machine, in closed form: nothing is drawn. docs/cost_model.md has the
// formulas and their sources, and says how far they are from drawn steps.
#pragma once

#include "terrace/plan/noise/noisy_step.h"

namespace terrace::plan {

struct ExpectedStep {
  double seconds = 0;  // on average
  NoiseCosts costs = {};
  double noiseless_seconds = 0;
};

ExpectedStep expected_step(const NoisyStep& step);

}  // namespace terrace::plan
