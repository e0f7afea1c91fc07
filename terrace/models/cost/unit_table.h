// The unit table of any configuration, by its family of models. Needs no torch, so that a planner may ask for it.
#pragma once

#include "terrace/config/config.h"
#include "terrace/schedule/unit_table.h"

namespace terrace::models {

// Throws UserError where the family is not built yet.
schedule::UnitTable unit_table(const config::ModelConfig& config, const schedule::UnitTableOptions& options = {});

}  // namespace terrace::models
