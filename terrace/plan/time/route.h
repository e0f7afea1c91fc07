// The route of keys and values among context ranks, and the one by which weights and gradients move among several
// nodes, and how weights are gathered between them, where the configuration leaves it to the program.
#pragma once

#include "terrace/machine/machine.h"
#include "terrace/machine/software.h"
#include "terrace/plan/planned_run.h"

namespace terrace::plan {

// The route of context attention: that of the layout or, where it is automatic, the one of those that the family allows
// with which the computation of a micro-batch takes least time on the machine.
config::ContextRoute chosen_context_route(const PlannedRun& run, const machine::Machine& machine,
                                          const machine::Software& software);

// The route of movements. With layout.route = "auto" it is the route whose movements take less time in a step on the
// machine; flat where rails do not fit the nodes, or have nothing to do. Otherwise it is the route of the layout.
config::Routing chosen_route(const PlannedRun& run, const machine::Machine& machine);

// The algorithm of gathers between nodes, in a run that has taken its route. With layout.rails_gather = "auto" it is
// the algorithm with which these gathers take less time. Otherwise, and without any such gather, it is that of the
// layout.
config::RailsGather chosen_rails_gather(const PlannedRun& run, const machine::Machine& machine);

}  // namespace terrace::plan
