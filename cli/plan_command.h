// The command line of a plan, as a page or a file repeats it.
#pragma once

#include <cstdint>
#include <string>

#include "cli/planned_target.h"

namespace terrace::cli {

// "terrace plan configs/tiny.toml --machine frontier .." on so many devices, with the options that the plan depends on.
std::string plan_command(const PlannedTarget& target, int64_t devices);

}  // namespace terrace::cli
