// SIGINT, SIGTERM and, unless it is ignored, SIGHUP as a request to end in order.
#pragma once

#include <atomic>
#include <chrono>

namespace terrace::cli {

// From now on the first signal sets interrupted(); the second one has the default action again. Until the program looks
// for interrupted() itself and says so with end_start(), a signal ends it within `grace` (base/system/start_watch.h).
void stop_on_signals(std::chrono::milliseconds grace = std::chrono::milliseconds(2000));
const std::atomic<bool>& interrupted();

}  // namespace terrace::cli
