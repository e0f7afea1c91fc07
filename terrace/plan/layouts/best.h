// Finds the fastest layouts of a configuration on a machine among all legal ones.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "terrace/plan/estimate.h"
#include "terrace/plan/layouts/layout_space.h"
#include "terrace/plan/prediction.h"

namespace terrace::plan {

struct BestLayouts {
  std::vector<Change> layouts = {};    // the fastest first; settings are the keys that differ from the configuration
  int64_t legal = 0;                   // layouts that hold the rules and fit the ranks
  int64_t fitting = 0;                 // legal layouts that fit the memory
  int64_t simulated = 0;               // fitting layouts that were simulated; a lower bound shows the rest to be slower
  std::string why = {};                // why the best layout is faster than the runner-up
  std::vector<std::string> kept = {};  // settings of the keys that were kept, "layout.tensor=8"
  std::string allowed = {};            // LayoutLimits::text
};

struct BestOptions {
  size_t count = 1;  // the number of layouts
  LayoutLimits limits = {};
  bool simulates_all = false;  // whether layouts that the lower bound excludes are simulated too
  // Called from time to time with the share of the layouts that is done.
  std::function<void(double)> progress = {};
};

// Varies layout.tensor, pipeline, schedule, chunks, sharding, sequence_parallel and order, train.micro_batch and
// train.recompute, within the limits. A layout is skipped if its lower bound is not below the time of the worst of the
// best so far, so the result is that of simulating all. Throws UserError if no layout holds the limits, or none fits,
// with the one that needs least memory.
BestLayouts best_layouts(const config::Config& config, const Target& target, const BestOptions& options);

}  // namespace terrace::plan
