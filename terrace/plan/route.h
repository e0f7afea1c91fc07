// The route by which weights and gradients move among several nodes, and how weights are gathered between them, where
// the configuration leaves it to the program.
#pragma once

#include "terrace/machine/machine.h"
#include "terrace/plan/planned_run.h"

namespace terrace::plan {

// With layout.route = "auto": the route whose movements take less time in a step on the machine; flat where rails do
// not fit the nodes, or have nothing to do. Otherwise the route of the layout.
config::Routing chosen_route(const PlannedRun& run, const machine::Machine& machine);

// Of a run that has taken its route, with layout.rails_gather = "auto": the algorithm with which gathers between nodes
// take less time. Without any such gather, and otherwise, that of the layout.
config::RailsGather chosen_rails_gather(const PlannedRun& run, const machine::Machine& machine);

}  // namespace terrace::plan
