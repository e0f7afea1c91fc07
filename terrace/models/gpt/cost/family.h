// The part of the GPT's family that a planner needs.
#pragma once

#include "terrace/models/cost/family.h"

namespace terrace::models::gpt {

const PlannedFamily& planned_family();

}  // namespace terrace::models::gpt
