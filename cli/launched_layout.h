// The layout that terrace launch --best launches.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "terrace/machine/machine.h"

namespace terrace::cli {

// The settings, as for --set, by which the fastest layout on so many devices differs from the configuration with
// `overrides`, whose keys are kept. `limits` are as of terrace plan --limit. Logs the layout. Throws UserError as
// plan::best_layouts().
std::vector<std::string> fastest_layout(const std::string& config_file, const std::vector<std::string>& overrides,
                                        const std::vector<std::string>& limits, const machine::Machine& machine,
                                        int64_t devices);

}  // namespace terrace::cli
