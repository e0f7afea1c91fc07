// The kinds of datasets beside text that this program makes, whether or not a family of models takes them.
#pragma once

#include <vector>

#include "terrace/data/preparation.h"

namespace terrace::data {

// A family names those that it takes by DataOfFamily::preparation(); a family that others write may bring its own.
const std::vector<const Preparation*>& kinds_of_data();

}  // namespace terrace::data
