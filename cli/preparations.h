// The kinds of data beside text that terrace data prepare makes.
#pragma once

#include <vector>

#include "terrace/data/preparation.h"

namespace terrace::cli {

using Preparations = std::vector<const data::Preparation*>;

// Fields, and those of the families of this build, of which a planner has none; each kind once.
Preparations preparations();

}  // namespace terrace::cli
