// Brings the readings of all ranks together.
#pragma once

#include <functional>

#include "terrace/comm/comm.h"
#include "terrace/doctor/checks.h"

namespace terrace::doctor {

// Called by all members of a group of all ranks, with the readings of each. The first member judges them all; the
// others get a diagnosis without text that has as many findings. Throws CommError.
Diagnosis diagnose_together(comm::Comm& all, const Readings& own);

}  // namespace terrace::doctor
