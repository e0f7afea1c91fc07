// The part of terrace plan that fits a machine's description to measured runs: its option and what it prints.
#pragma once

#include <string>
#include <vector>

#include "cli/planned_target.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace terrace::cli {

// Adds --fit, which is returned; `sources` must outlive the parsing.
CLI::Option* add_fit_option(CLI::App& command, std::vector<std::string>& sources);

// Fits the description to the runs and prints what was found; writes the description to `file` unless it is empty.
// Throws UserError where a source cannot be read or no run can be predicted.
void print_fit(const CLI::App& command, const PlannedTarget& planned, const std::vector<std::string>& sources,
               const std::string& file, bool json);

}  // namespace terrace::cli
