// The kinds of data beside text that terrace data prepare makes.
#pragma once

#include <vector>

#include "terrace/data/preparation.h"

namespace terrace::cli {

using Preparations = std::vector<const data::Preparation*>;

// Those of the families of this build, each kind once. A planner, whose families have no data, makes fields too.
Preparations preparations();

}  // namespace terrace::cli
