// The wish to learn where every rank of a run is, as a signal says it.
#pragma once

#include <atomic>

namespace terrace::train {

// From now on each SIGUSR2 makes every rank of the run write its last calls, and the run goes on. Called once by the
// program that owns the process's signals.
void report_on_signal();

// How many reports were asked for: what comm::WorldOptions::report_requests points to.
const std::atomic<int>& report_requests();

}  // namespace terrace::train
