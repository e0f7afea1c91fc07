// What a planner needs of a family of models: its part of the configuration and its unit table. Needs no torch.
#pragma once

#include "terrace/config/family.h"
#include "terrace/schedule/unit_table.h"

namespace terrace::models {

struct PlannedFamily : config::Family {
  schedule::UnitTable (*unit_table)(const config::Config&, const schedule::UnitTableOptions&) = nullptr;
  // Items of one sample, such as the tokens of a sequence; null: 1.
  int64_t (*items_of_sample)(const config::Config&) = nullptr;
};

// The families of this program, for a program without torch.
const config::Families& planned_families();

// The unit table of the configuration's model, from its family.
schedule::UnitTable unit_table(const config::Config& config, const schedule::UnitTableOptions& options = {});

}  // namespace terrace::models
