// The family of the vision transformer with all its parts.
#pragma once

#include "terrace/config/family.h"

namespace terrace::models::vit {

const config::Family& family();

}  // namespace terrace::models::vit
