// Doubles the devices until some layout fits, and halves the distance to the most that did not.
#include "terrace/plan/layouts/fewest.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "terrace/base/error.h"
#include "terrace/base/text/units.h"
#include "terrace/plan/report/plan_report.h"

namespace terrace::plan {
namespace {

class Hold {
 public:
  Hold(const config::Config& config, const Target& target, const BestOptions& options)
      : config_(config), target_(target), options_(options) {}

  // The best layouts on so many devices; nothing if none fits, and then `refusal` says why.
  std::optional<BestLayouts> on(int64_t devices) {
    Target target = target_;
    target.devices = devices;
    try {
      return best_layouts(config_, target, options_);
    } catch (const UserError& error) {
      if (error.code != ExitCode::infeasible) throw;
      refusal = error.what();
      return std::nullopt;
    }
  }

  std::string refusal;

 private:
  const config::Config& config_;
  const Target& target_;
  const BestOptions& options_;
};

}  // namespace

FewestDevices fewest_devices(const config::Config& config, const Target& target, const BestOptions& options) {
  Hold hold(config, target, options);
  const int64_t most = target.machine.devices(), in_node = target.machine.devices_of("node");
  int64_t too_few = 0;
  FewestDevices found;
  for (int64_t devices = 1; found.devices == 0; devices = std::min(most, 2 * devices)) {
    if (std::optional<BestLayouts> best = hold.on(devices)) {
      found = {.devices = devices, .best = std::move(*best)};
    } else if (devices == most) {
      throw UserError(hold.refusal, ExitCode::infeasible);
    } else {
      too_few = devices;
    }
  }
  // Whole nodes between the two; a number that does not divide the batch has no layout and counts as too few.
  while (found.devices - too_few > in_node && found.devices > in_node) {
    const int64_t middle = too_few + (found.devices - too_few) / in_node / 2 * in_node;
    if (middle == too_few) break;
    if (std::optional<BestLayouts> best = hold.on(middle)) {
      found = {.devices = middle, .best = std::move(*best)};
    } else {
      too_few = middle;
    }
  }
  return found;
}

Json json_of(const FewestDevices& fewest, const Target& target) {
  Target on_fewest = target;
  on_fewest.devices = fewest.devices;
  return {{"fewest_devices", fewest.devices}, {"best", json_of(fewest.best, on_fewest)}};
}

std::string text_of(const FewestDevices& fewest, const Target& target) {
  Target on_fewest = target;
  on_fewest.devices = fewest.devices;
  return fmt::format("{} of {} devices of {} hold the model\n{}", format_count(fewest.devices),
                     format_count(target.machine.devices()), target.machine.name, text_of(fewest.best, on_fewest));
}

}  // namespace terrace::plan
