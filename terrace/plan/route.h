// The route by which weights and gradients move among several nodes, where the configuration leaves it to the program.
#pragma once

#include "terrace/machine/machine.h"
#include "terrace/plan/planned_run.h"

namespace terrace::plan {

// With layout.route = "auto": the route whose movements take less time in a step on the machine; flat where rails do
// not fit the nodes, or have nothing to do. Otherwise the route of the layout.
config::Routing chosen_route(const PlannedRun& run, const machine::Machine& machine);

}  // namespace terrace::plan
