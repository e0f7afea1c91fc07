// The report of what was understood of a launch of another trainer, as text for people and as JSON for programs.
#pragma once

#include <string>

#include "terrace/base/text/json_fwd.h"
#include "terrace/translate/translation.h"

namespace terrace::translate {

// A line for each argument with its key, and lists of the others.
std::string text_of(const Translation& translation);
// The keys: program, software, settings (argument, key, value, is_default, is_replaced), no_twin (argument, planned),
// without_effect, unknown, left_out and assumptions.
Json json_of(const Translation& translation);

}  // namespace terrace::translate
