// Prints the error of a command as JSON where its results are JSON.
#pragma once

#include <functional>

namespace terrace::cli {

// Runs the command. If it throws and `json` is set, prints {"errors": [..], "exit_code": N} on standard output before
// the exception goes on, so that standard error and the exit code are those of any command. An error without text, as
// on ranks that report none, and a stop on request print nothing.
void with_json_errors(bool json, const std::function<void()>& run);

}  // namespace terrace::cli
