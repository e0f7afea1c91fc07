// The family of pairs: everything that a family states, as docs/model.md asks for it.
#pragma once

#include "terrace/models/family.h"

namespace terrace::pair {

const models::Family& family();

}  // namespace terrace::pair
