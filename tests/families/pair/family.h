// The family of pairs, with everything that docs/model.md requires of a family.
#pragma once

#include "terrace/models/family.h"

namespace terrace::pair {

const models::Family& family();

}  // namespace terrace::pair
