// The wish to end a run after the present step, as a signal says it.
#pragma once

namespace terrace::train {

// From now on SIGINT, SIGTERM and SIGUSR1 request a stop; a second SIGINT ends the process at once. Called once by the
// program that owns the process's signals; a library's user may call request_stop() instead. SIGXFSZ is ignored, so
// that a limit on the size of files refuses a write, as a full disk does, and does not kill the run.
void stop_on_signals();

void request_stop();
bool stop_requested();
// Forgets a request, for a process that trains again.
void clear_stop_request();

}  // namespace terrace::train
