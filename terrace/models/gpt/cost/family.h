// The GPT as a planner sees it.
#pragma once

#include "terrace/models/cost/family.h"

namespace terrace::models::gpt {

const PlannedFamily& planned_family();

}  // namespace terrace::models::gpt
