// Brings the readings of ranks together.
#pragma once

#include "terrace/comm/comm.h"
#include "terrace/doctor/checks.h"

namespace terrace::doctor {

// Called by all members of a group of all ranks, with the readings of each. The first member judges them all; the
// others get a diagnosis without text that has as many findings. Throws CommError.
Diagnosis diagnose_together(comm::Comm& all, const Readings& own);

// Judges the readings of all ranks at the start of a run of any size; the readings were taken quickly. The ranks of a
// node, of which there are `ranks_per_node` neighbours on each, judge their node together, and of each other rank one
// gets 24 bytes. Of the checks that compare nodes only the one of versions is made. Each finding is that of the first
// node that has it, with the number of the others. Called by all ranks; the first one gets the findings. Throws
// CommError.
Diagnosis diagnose_by_node(comm::World& world, int64_t ranks_per_node, Readings own);

}  // namespace terrace::doctor
