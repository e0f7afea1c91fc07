// The families of this program without the parts that need torch.
#pragma once

#include "terrace/config/config.h"

namespace terrace::models {

// The families for a program without torch: they build no models. CMake writes the list.
const config::Families& planned_families();

}  // namespace terrace::models
