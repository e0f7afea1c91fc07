// Time, bytes and memory of the outer updates of copies that make steps by themselves (parallel::OuterSteps).
#pragma once

#include <cstdint>

#include "terrace/machine/machine.h"
#include "terrace/plan/planned_run.h"

namespace terrace::plan {

// One outer update on a rank; all 0 where a run has none.
struct OuterUpdate {
  double seconds = 0;         // of its calls and its passes over the states
  double moving_seconds = 0;  // of its calls
  double bytes = 0;           // that the rank sends
};

// `machine` is that of the job (machine::for_job).
OuterUpdate outer_update(const PlannedRun& run, int64_t stage, const machine::Machine& machine);

// The most that a call of an outer update takes on a rank of the stage beside the states.
int64_t outer_update_bytes(const PlannedRun& run, int64_t stage);

}  // namespace terrace::plan
