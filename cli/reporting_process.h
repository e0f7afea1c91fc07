// Says which process of a launch reports mistakes that all of its processes find.
#pragma once

#include "terrace/comm/launcher.h"

namespace terrace::cli {

// Whether this process reports mistakes in the command line, which is the same on all processes of a launch.
inline bool is_reporting_process() { return comm::launched_rank() == 0; }

}  // namespace terrace::cli
