// What each process knows of a trial, put together on all of them.
#pragma once

#include "terrace/comm/comm.h"
#include "terrace/verify/trial.h"

namespace terrace::verify {

// Called by all ranks with their own parts: elements and losses that a rank did not write are zeros, the loss and the
// norm are the first rank's, and each rank has its own digest log.
void gather_trial(Trial& trial, comm::Comm& all);

}  // namespace terrace::verify
