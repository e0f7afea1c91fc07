// Multiplies a step by the steps of a run.
#include "terrace/plan/time/run_cost.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "terrace/base/text/plural.h"
#include "terrace/base/text/units.h"
#include "terrace/config/family.h"
#include "terrace/data/order/batch_ramp.h"
#include "terrace/plan/estimate.h"

namespace terrace::plan {
namespace {

// The first step after which so many samples were drawn.
int64_t steps_for(double samples, const data::BatchRamp& ramp) {
  const auto too_few = [&](int64_t steps) { return static_cast<double>(ramp.samples_before(steps + 1)) < samples; };
  int64_t below = 0, enough = 1;
  while (too_few(enough)) enough *= 2;
  while (enough - below > 1) {
    const int64_t middle = below + (enough - below) / 2;
    (too_few(middle) ? below : enough) = middle;
  }
  return enough;
}

// Each failure takes `lost_seconds`, in which there are failures too.
void add_failures(RunCost& cost, double lost_seconds, double seconds_between) {
  const double share = lost_seconds / seconds_between;
  cost.repeated_seconds = share < 1 ? cost.seconds * share / (1 - share) : std::numeric_limits<double>::infinity();
  cost.seconds += *cost.repeated_seconds;
  cost.restarts = cost.seconds / seconds_between;
}

std::string failure_line(const RunCost& cost, const config::Config& config, const Target& target) {
  const std::string nodes = counted(static_cast<uint64_t>(target.nodes()), "node");
  if (*cost.restarts < 0.01) return fmt::format("    fewer than 0.01 failures of {} are to be expected\n", nodes);
  const std::string times = fmt::format("    {:.3g} restarts after failures of {}", *cost.restarts, nodes);
  if (!cost.repeated_seconds) {
    return times + ", each from the first step, as checkpoint.every = 0 writes no checkpoint before the end\n";
  }
  if (!std::isfinite(*cost.repeated_seconds)) {
    return fmt::format("    never ends: {} fail more often than a checkpoint every {} steps ({}) allows\n", nodes,
                       format_count(config.checkpoint.every), format_seconds(cost.checkpoint_interval_seconds));
  }
  return fmt::format("{}, which repeat {} of this time with a checkpoint every {} steps ({})\n", times,
                     format_days(*cost.repeated_seconds), format_count(config.checkpoint.every),
                     format_seconds(cost.checkpoint_interval_seconds));
}

Json json_of(const std::optional<double>& figure) {
  return figure && std::isfinite(*figure) ? Json(*figure) : Json(nullptr);
}

}  // namespace

RunCost run_cost(const config::Config& config, const Prediction& prediction, const Target& target,
                 std::optional<double> items) {
  const data::BatchRamp ramp(config.train, config.phases);
  const auto items_of_sample = static_cast<double>(prediction.items) / static_cast<double>(prediction.samples);
  RunCost cost{.steps = items ? steps_for(*items / items_of_sample, ramp) : config.train.steps};
  cost.items = items_of_sample * static_cast<double>(ramp.samples_before(cost.steps + 1));
  cost.seconds = cost.items / prediction.items_per_second();
  if (config.checkpoint.every > 0) {
    cost.checkpoint_interval_seconds = static_cast<double>(config.checkpoint.every) * prediction.step_seconds;
  }
  const machine::Machine& machine = target.machine;
  if (machine.node_failure_hours > 0) {
    const double between = 3600 * machine.node_failure_hours / static_cast<double>(target.nodes());
    const double read = checkpoint_estimate(prediction, target).seconds;
    if (config.checkpoint.every > 0) {
      add_failures(cost, read + std::min(cost.checkpoint_interval_seconds, cost.seconds) / 2, between);
    } else {
      cost.restarts = cost.seconds / between;
    }
  }
  const double device_seconds = cost.seconds * static_cast<double>(target.devices);
  cost.device_hours = device_seconds / 3600;
  if (machine.device.power_watts > 0) cost.energy_joules = device_seconds * machine.device.power_watts;
  return cost;
}

Json json_of(const RunCost& cost, const config::Config& config) {
  return {{"steps", cost.steps},
          {config.family->items, cost.items},
          {"seconds", json_of(std::optional(cost.seconds))},
          {"device_hours", json_of(std::optional(cost.device_hours))},
          {"energy_joules", json_of(cost.energy_joules)},
          {"restarts", json_of(cost.restarts)},
          {"repeated_seconds", json_of(cost.repeated_seconds)}};
}

std::string text_of(const RunCost& cost, const config::Config& config, const Target& target) {
  if (!std::isfinite(cost.seconds)) return failure_line(cost, config, target);
  std::string text = fmt::format("    {} of {:.3g} {}: {}, {:.3g} device-hours{}\n",
                                 counted(static_cast<uint64_t>(cost.steps), "step"), cost.items, config.family->items,
                                 format_days(cost.seconds), cost.device_hours,
                                 cost.energy_joules ? ", " + format_energy(*cost.energy_joules) : "");
  if (cost.restarts) text += failure_line(cost, config, target);
  std::vector<std::string> missing;
  if (!cost.energy_joules) missing.emplace_back("the energy (no power in [device])");
  if (!cost.restarts) missing.emplace_back("the restarts (no node_failure_time)");
  if (!missing.empty()) {
    text += fmt::format("    not known from {}: {}\n", target.machine.source(), fmt::join(missing, " and "));
  }
  return text;
}

}  // namespace terrace::plan
