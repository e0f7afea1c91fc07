// The family of pairs, with everything that docs/model.md requires of a family.
#pragma once

#include "terrace/config/family.h"

namespace terrace::pair {

const config::Family& family();

}  // namespace terrace::pair
