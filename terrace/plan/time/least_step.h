// Bounds the time of a step without simulating it, and so finds the fastest of many layouts by simulating few.
#pragma once

#include <cstddef>
#include <limits>
#include <vector>

#include "terrace/plan/estimate.h"
#include "terrace/plan/time/predicted_costs.h"
#include "terrace/plan/time/variation.h"

namespace terrace::plan {

// A lower bound of a step's seconds. A stage computes all its micro-batches. Before its first one, a micro-batch passes
// forward through the virtual stages before the stage's first; after its last, the gradient passes back through them,
// unless the stage computes deferred weight gradients meanwhile.
double least_step_seconds(const PlannedRun& run, const PredictedCosts& costs);

struct FastestOptions {
  size_t count = 1;
  double most_seconds = std::numeric_limits<double>::infinity();  // of a step; slower layouts are left out
  // As above, of layouts whose tensor groups leave the node.
  double most_seconds_over_nodes = std::numeric_limits<double>::infinity();
  bool fewest_settings_first = false;  // and the fastest among those of as many
};

// The fastest of the configurations that fit the devices and the memory, the fastest first, each with its prediction;
// among equally fast ones that which is listed first. Configurations are simulated in the order of their bounds, until
// the bound exceeds the time of the last one that is wanted, so the result is that of simulating all.
std::vector<Change> fastest_of(std::vector<Variation> variations, const Target& target, const FastestOptions& options);

}  // namespace terrace::plan
