// The kinds of data beside text that terrace data prepare makes.
#pragma once

#include <vector>

#include "terrace/data/preparation.h"

namespace terrace::cli {

using Preparations = std::vector<const data::Preparation*>;

// The preparations of the families of this build, and those of data::kinds_of_data() that no family takes, each kind
// once.
Preparations preparations();

}  // namespace terrace::cli
