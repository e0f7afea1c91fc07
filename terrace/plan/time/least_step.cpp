// Orders configurations by their bounds, and simulates them until no other one can be faster.
#include "terrace/plan/time/least_step.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/plan/memory/communicators.h"
#include "terrace/plan/time/tensor_reach.h"

namespace terrace::plan {
namespace {

struct BoundedLayout {
  size_t settings = 0;  // their number, where the fewest come first
  double seconds = 0;   // at least
  size_t number = 0;    // in the list
  double most = 0;      // seconds with which it is still wanted

  auto operator<=>(const BoundedLayout&) const = default;
};

}  // namespace

double least_step_seconds(const PlannedRun& run, const PredictedCosts& costs) {
  const bool defers = run.pipeline.schedule == config::PipelineSchedule::zb_h1 ||
                      run.pipeline.schedule == config::PipelineSchedule::zb_v;
  double most = 0, before = 0;
  for (int64_t stage = 0; stage < run.placement.stages; ++stage) {
    const double own = costs.computation(stage).total();
    most = std::max(most, before + own + costs.update_seconds(stage));
    // The virtual stages 0 .. stages - 1 are the first chunks of the stages.
    before += costs.chunk_seconds(stage, 0, !defers);
  }
  return most;
}

std::vector<Change> fastest_of(std::vector<Variation> variations, const Target& target, const FastestOptions& options) {
  const auto settings_of = [&](size_t number) {
    return options.fewest_settings_first ? variations[number].settings.size() : 0;
  };
  const double memory = target.machine.device.memory_bytes - target.machine.device.reserved_bytes;
  std::vector<BoundedLayout> candidates;
  for (size_t number = 0; number < variations.size(); ++number) {
    try {
      const PlannedRun run = planned_run(variations[number].config, target);
      if (needed_bytes(run, target) > memory) continue;
      const double least =
          least_step_seconds(run, PredictedCosts(run, target.machine, target.software, target.block_products));
      const bool leaves_node = tensor_leaves_domain(run.mesh, target.machine);
      const double most = leaves_node ? options.most_seconds_over_nodes : options.most_seconds;
      if (least <= most) candidates.push_back({settings_of(number), least, number, most});
    } catch (const UserError&) {
      continue;  // does not fit the number of devices
    }
  }
  std::ranges::sort(candidates);
  std::vector<std::pair<BoundedLayout, Prediction>> found;  // in order
  for (const BoundedLayout& one : candidates) {
    const bool is_full = found.size() == options.count;
    const auto order = [](const BoundedLayout& candidate) { return std::pair(candidate.settings, candidate.seconds); };
    if (is_full && order(one) > order(found.back().first)) break;
    Prediction prediction = predict(variations[one.number].config, target);
    if (prediction.step_seconds > one.most) continue;
    const BoundedLayout simulated{one.settings, prediction.step_seconds, one.number, one.most};
    const auto place = std::ranges::upper_bound(found, simulated, {}, [](const auto& other) { return other.first; });
    found.emplace(place, simulated, std::move(prediction));
    if (found.size() > options.count) found.pop_back();
  }
  std::vector<Change> changes;
  for (auto& [candidate, prediction] : found) {
    Variation& variation = variations[candidate.number];
    changes.push_back({.settings = std::move(variation.settings),
                       .config = std::move(variation.config),
                       .prediction = std::move(prediction)});
  }
  return changes;
}

}  // namespace terrace::plan
