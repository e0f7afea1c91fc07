// The part of terrace plan that finds the fastest layouts: its options, what it prints, and the file of the fastest
// one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/planned_target.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace terrace::cli {

struct BestArguments {
  int64_t count = 0;                // of layouts; 0: none are asked for
  std::vector<std::string> limits;  // expressions
  std::string file;                 // for the fastest layout's configuration; "": none
};

// Adds --best, which is returned, --limit and --write. `arguments` must outlive the parsing.
CLI::Option* add_best_options(CLI::App& command, BestArguments& arguments);

// Prints the fastest layouts, and writes the configuration of the fastest. Throws UserError as plan::best_layouts(),
// and for limits that cannot be read.
void print_best_layouts(const PlannedTarget& planned, const BestArguments& arguments, bool json);

}  // namespace terrace::cli
