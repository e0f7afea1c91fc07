// The part of terrace plan that finds the fastest layouts: its options, what it prints, and the file of the fastest
// one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/planned_target.h"
#include "terrace/plan/layouts/same_loss.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace terrace::cli {

struct BestArguments {
  int64_t count = 0;                // of layouts; 0: none are asked for
  bool fewest = false;              // on the fewest devices that hold the model
  std::vector<std::string> limits;  // expressions
  std::string file;                 // for the fastest layout's configuration; "": none
  std::vector<int64_t> batches;     // global batches to compare by the noise scale; empty: the configuration's
};

// Adds --best, which is returned, --limit, --write and --batches. `arguments` must outlive the parsing.
CLI::Option* add_best_options(CLI::App& command, BestArguments& arguments);

// Prints the fastest layouts, or with several batches that of each, and writes the configuration of the fastest. Throws
// UserError as plan::best_layouts(), for limits that cannot be read, and for a noise scale without several batches or
// the reverse.
void print_best_layouts(const PlannedTarget& planned, const BestArguments& arguments,
                        const std::optional<plan::GivenNoiseScale>& noise_scale, bool json);

}  // namespace terrace::cli
