// Serves the page of terrace report to a browser of this machine while the runs train.
#pragma once

#include "cli/report_pages.h"

namespace terrace::cli {

// Answers requests for "/" on the loopback address with the page of the runs as they are then; every browser asks for
// it again after some seconds. The page says which runs have not begun, and so does a warning at the start. Nothing
// else is served, and nothing is written. `port` 0: any free one. Prints the address and serves until the process is
// ended. Throws UserError if the port is taken.
[[noreturn]] void serve_report(const ShownRuns& runs, int port);

}  // namespace terrace::cli
