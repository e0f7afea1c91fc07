// Lets a signal or a caller request that a run end after the present step.
#pragma once

namespace terrace::train {

// Lets SIGINT, SIGTERM, SIGUSR1 and, unless it is ignored, SIGHUP request a stop from now on; a second SIGINT ends the
// process at once. Until the program looks for requests itself (base/system/start_watch.h), one ends the process
// within seconds. Called once by the program that owns the process's signals; a program that uses the library may call
// request_stop() instead. SIGXFSZ is ignored, so that a limit on the size of files makes a write fail, as a full disk
// does, and does not kill the run.
void stop_on_signals();

void request_stop();
bool stop_requested();
// Clears a request, for a process that trains again.
void clear_stop_request();

}  // namespace terrace::train
