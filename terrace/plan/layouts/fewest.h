// Finds the fewest devices of a machine that hold a model.
#pragma once

#include <string>

#include "terrace/base/text/json.h"
#include "terrace/plan/layouts/best.h"

namespace terrace::plan {

struct FewestDevices {
  Target target = {};     // with so many devices
  BestLayouts best = {};  // on these
};

// Numbers of devices are looked at up to a node by doubling, and beyond as whole nodes; a number counts as too few if
// none of the layouts of best_layouts() fits the memory. Throws UserError with ExitCode::infeasible if not even all
// devices of the machine hold the model, with the layout that needs least memory.
FewestDevices fewest_devices(const config::Config& config, const Target& target, const BestOptions& options);

Json json_of(const FewestDevices& fewest);
std::string text_of(const FewestDevices& fewest);

}  // namespace terrace::plan
