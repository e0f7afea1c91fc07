// SIGINT, SIGTERM and, unless it is ignored, SIGHUP as a request to end in order.
#pragma once

#include <atomic>

namespace terrace::cli {

// From now on the first signal sets interrupted(); the second one has the default action again.
void stop_on_signals();
const std::atomic<bool>& interrupted();

}  // namespace terrace::cli
