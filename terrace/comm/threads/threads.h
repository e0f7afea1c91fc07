// Ranks as threads of this process: the backend of one machine that needs nothing installed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "terrace/comm/comm.h"

namespace terrace::comm {

// Runs rank_main for each rank in a thread of its own, and returns when all have ended. The first exception of a rank
// lets the calls of the others fail and is thrown here again when all have ended; a rank's own error comes before the
// CommErrors of those that waited for it. A rank that returns while others wait
// for it lets them fail as well. Where a rank has not ended options.timeout_seconds (and at least 5 s) after a failure,
// the process ends with exit code 5, since no thread can be ended alone. Sums are taken in ascending order of ranks
// always.
void run_threads(int64_t ranks, const WorldOptions& options, const std::function<void(World&)>& rank_main);

// The world of one rank, for the thread that makes it.
std::unique_ptr<World> make_solo_world();

}  // namespace terrace::comm
