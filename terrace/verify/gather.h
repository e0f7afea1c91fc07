// Gathers a run's results from all processes on every process.
#pragma once

#include "terrace/comm/comm.h"
#include "terrace/verify/small_run.h"

namespace terrace::verify {

// Called by all ranks, each with its own results: elements and losses that a rank did not write must be zeros. The loss
// and the norm are taken from the first rank, and each digest log from its rank.
void gather_run(SmallRun& run, comm::Comm& all);

}  // namespace terrace::verify
