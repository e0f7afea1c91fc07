// A space with one parameter, on which what a surrogate learns can be worked out by hand.
#pragma once

#include "terrace/search/study/space.h"

namespace terrace::search {

inline Space line() { return {{{.name = "x", .type = Parameter::Type::integer, .low = 0, .high = 100}}, {}, {}, {}}; }

}  // namespace terrace::search
