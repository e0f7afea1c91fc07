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
  std::optional<FewestDevices> on(int64_t devices) {
    FewestDevices held{.target = target_};
    held.target.devices = devices;
    BestOptions fastest_alone = options_;
    fastest_alone.moves_constants = false;
    try {
      held.best = best_layouts(config_, held.target, fastest_alone);
      return held;
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
  int64_t too_few = 0, enough = 1;
  std::optional<FewestDevices> found = hold.on(enough);
  while (!found) {
    if (enough == most) throw UserError(hold.refusal, ExitCode::infeasible);
    too_few = enough;
    enough = std::min(most, 2 * enough);
    found = hold.on(enough);
  }
  // Whole nodes between the two; a number that does not divide the batch has no layout and counts as too few.
  while (enough - too_few > in_node && enough > in_node) {
    const int64_t middle = too_few + (enough - too_few) / in_node / 2 * in_node;
    if (middle == too_few) break;
    if (std::optional<FewestDevices> fewer = hold.on(middle)) {
      enough = middle;
      found = std::move(fewer);
    } else {
      too_few = middle;
    }
  }
  if (options.moves_constants) found->best = best_layouts(config, found->target, options);
  return *found;
}

Json json_of(const FewestDevices& fewest) {
  return {{"fewest_devices", fewest.target.devices}, {"best", json_of(fewest.best, fewest.target)}};
}

std::string text_of(const FewestDevices& fewest) {
  return fmt::format("{} of {} devices of {} hold the model\n{}", format_count(fewest.target.devices),
                     format_count(fewest.target.machine.devices()), fewest.target.machine.name,
                     text_of(fewest.best, fewest.target));
}

}  // namespace terrace::plan
