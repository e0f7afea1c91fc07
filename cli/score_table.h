// The part of terrace plan that compares predictions with tables of published runs: its options and what it prints.
#pragma once

#include <string>
#include <vector>

#include "cli/planned_target.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace terrace::cli {

struct ScoreArguments {
  std::vector<std::string> tables;  // CSV files, and folders of runs; empty: none are scored
  std::string output, errors;
};

// Adds --score, which is returned, --output and --errors. `arguments` must outlive the parsing.
CLI::Option* add_score_options(CLI::App& command, ScoreArguments& arguments);

// Scores the tables on the machine and with the software that the command line names, or else each row does. Throws
// UserError where a table cannot be read, and ExitCode::infeasible where no row can be scored.
void print_score(const CLI::App& command, const PlannedTarget& planned, const ScoreArguments& arguments, bool json);

}  // namespace terrace::cli
