// Reads [[data.phases]] of a file.
#pragma once

#include <toml++/toml.h>

#include <string>
#include <vector>

#include "terrace/config/phases.h"

namespace terrace::config {

struct PhaseProblem {
  toml::source_region where;
  std::string text;
};

// Reads a list of tables into config.phases, on top of the other keys of the configuration, which must have been read.
// Returns every problem. The rules between keys are checked for each phase only with `check_rules`.
std::vector<PhaseProblem> read_phases(const toml::node& node, bool check_rules, Config& config);

}  // namespace terrace::config
