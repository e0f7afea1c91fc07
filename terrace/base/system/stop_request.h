// Lets a signal or a caller request that what a program does ends: one flag of the process, since a signal handler can
// reach nothing else.
#pragma once

#include <atomic>

namespace terrace {

void request_stop();  // may be called by a signal handler
bool stop_requested();
// Clears a request, for a process that begins again.
void clear_stop_request();
// The flag itself, for what looks at it often.
const std::atomic<bool>& stop_flag();

}  // namespace terrace
