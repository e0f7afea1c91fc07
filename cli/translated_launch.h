// The options of terrace plan that translate a launch of another trainer: --from-megatron, --from-deepspeed and
// --from-torchtitan.
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

struct TranslationArguments {
  std::string megatron, deepspeed, torchtitan;  // as the user gives them; "" where not
  std::vector<std::string> left_out;            // arguments of the launch that count as not given
  CLI::Option* config = nullptr;                // the file of the command, which a whole launch replaces
  CLI::Option* software = nullptr;
};

// Adds the options and makes the configuration file optional. The arguments of PlannedTarget have been added; `launch`
// must outlive the parsing.
void add_launch_options(CLI::App& command, TranslationArguments& launch);

// Puts the launch's configuration, devices and program into `target`, where the user gives none, and warns of arguments
// that are not known. `devices` are those that the user gives, or 0. Does nothing if no launch is given; throws
// UserError if neither a launch nor a configuration is, and as the translations do.
void translate_launch(const TranslationArguments& launch, int64_t devices, PlannedTarget& target);

// Writes the configuration for `terrace train`, with a warning if keys are missing that training needs.
void write_translation(const PlannedTarget& target, const config::Config& config, const std::string& file);

}  // namespace terrace::cli
