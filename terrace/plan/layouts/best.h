// Finds the fastest layouts of a configuration on a machine among all legal ones.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "terrace/plan/estimate.h"
#include "terrace/plan/layouts/layout_space.h"
#include "terrace/plan/layouts/moved_constants.h"
#include "terrace/plan/prediction.h"
#include "terrace/plan/report/published_errors.h"

namespace terrace::plan {

struct BestLayouts {
  // The fastest first, or the one that `choice` prefers; settings are the keys that differ from the configuration. Each
  // has another tensor or pipeline size or micro-batch than the others, or cuts weights over data-parallel ranks where
  // they do not: of layouts that share these the fastest stands for all.
  std::vector<Change> layouts = {};
  int64_t legal = 0;      // layouts that hold the rules and fit the ranks
  int64_t fitting = 0;    // legal layouts that fit the memory
  int64_t simulated = 0;  // fitting layouts that were simulated; a lower bound shows the rest to be slower
  std::string why = {};   // why the best layout is faster than the runner-up
  // The number of layouts, from the first on, whose predicted steps differ from the fastest one's by less than the
  // errors of published layouts of one model differ (PublishedErrors::median_difference); 1: the first one alone.
  int64_t tied = 1;
  int64_t all_tied = 1;  // the same of all layouts that were found, of which `layouts` has as many as were asked for
  // How the layouts compare while the machine's constants are moved, with BestOptions::moves_constants. The first
  // layout is then the one of the tied ones that has the least worst regret.
  std::optional<HeldChoice> choice = {};
  // The fastest layout whose tensor groups leave the node, if its predicted step is shorter than that of the best one,
  // but by no more than such predictions err; it is not preferred then.
  std::optional<Change> over_nodes = {};
  std::vector<std::string> kept = {};  // settings of the keys that were kept, "layout.tensor=8"
  std::string allowed = {};            // LayoutLimits::text
};

struct BestOptions {
  size_t count = 1;  // the number of layouts
  LayoutLimits limits = {};
  // The share by which a layout whose tensor groups leave the node must be faster than one whose groups stay inside, to
  // be preferred: the width of the interval of published errors of such layouts.
  double over_nodes_margin = uncertainty_of("tensor over nodes", published_errors());
  // Whether the leading layouts are ranked again while the machine's constants are moved.
  bool moves_constants = false;
  bool simulates_all = false;  // whether layouts that the lower bound excludes are simulated too
  // Called from time to time with the share of the layouts that is done.
  std::function<void(double)> progress = {};
};

// Varies layout.tensor, pipeline, schedule, chunks, sharding, sequence_parallel and order, train.micro_batch and
// train.recompute, within the limits. Of schedules with one chunk it also tries train.recompute = "full" with
// layout.recompute_layers = "fit". A layout is skipped if its lower bound is not below the time of the worst of the
// best so far, so the result is that of simulating all. Throws UserError if no layout holds the limits, or none fits,
// with the one that needs least memory.
BestLayouts best_layouts(const config::Config& config, const Target& target, const BestOptions& options);

}  // namespace terrace::plan
