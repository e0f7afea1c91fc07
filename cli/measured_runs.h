// Reads the measured runs that subcommands compare with predictions: tables of published runs, and folders of runs.
#pragma once

#include <string>
#include <vector>

#include "cli/planned_target.h"
#include "terrace/score/published_run.h"

namespace CLI {
class App;
}

namespace terrace::cli {

// The runs of all `sources`, each a CSV file or the folder of a run, on the machine and with the program that the
// command line names, or else those that a row names. Throws UserError where one cannot be read.
std::vector<score::PublishedRun> measured_runs(const CLI::App& command, const PlannedTarget& planned,
                                               const std::vector<std::string>& sources);

}  // namespace terrace::cli
