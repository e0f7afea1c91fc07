// Ranks as threads of this process: the backend for one machine, which needs no other software.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "terrace/comm/comm.h"

namespace terrace::comm {

// Runs rank_main for each rank in its own thread, and returns when all ranks have ended. The first exception of a rank
// makes the calls of the others fail and is rethrown here when all have ended; a rank's own error takes precedence over
// the CommErrors of those that waited for it. A rank that returns while others wait for it makes them fail as well.
// Where a rank has not ended options.timeout_seconds (and at least 5 s) after a failure, the process ends with exit
// code 5, since a thread cannot be ended alone. Sums are always taken in ascending order of ranks.
void run_threads(int64_t ranks, const WorldOptions& options, const std::function<void(World&)>& rank_main);

// The world of one rank, for the thread that makes it.
std::unique_ptr<World> make_solo_world();

}  // namespace terrace::comm
