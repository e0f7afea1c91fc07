// Limits of the layouts that terrace plan --best considers: keys that --set gives, and the expressions of --limit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "terrace/config/config.h"
#include "terrace/plan/layouts/layout_space.h"

namespace terrace::cli {

// `overrides` are those of --set; their keys are kept. `limits` are expressions such as "tensor <= 8", all of which
// must be true, over keys that are numbers ("layout.tensor" or "tensor"), the data-parallel ranks ("data"), the
// micro-batches of each of them in a step ("micro_batches") and "devices". Throws UserError with every limit that
// cannot be read, and with the names that there are.
plan::LayoutLimits layout_limits(const std::vector<std::string>& overrides, const std::vector<std::string>& limits,
                                 const config::Config& config, int64_t devices);

}  // namespace terrace::cli
