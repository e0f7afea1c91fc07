// Lets a signal ask every rank of a run to report its last calls.
#pragma once

#include <atomic>

namespace terrace::train {

// Lets, from now on, each SIGUSR2 make every rank of the run write its last calls; the run continues. Called once by
// the program that owns the process's signals.
void report_on_signal();

// The number of reports requested so far; comm::WorldOptions::report_requests points to it.
const std::atomic<int>& report_requests();

}  // namespace terrace::train
