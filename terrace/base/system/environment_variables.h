// Replaces the names of environment variables in a text by their values.
#pragma once

#include <string>
#include <string_view>

namespace terrace {

// "$USER" and "${USER}" become the value of USER, and "$$" becomes "$". Throws UserError that names a variable which
// the environment lacks, and for a "$" that no name follows.
std::string with_variables(std::string_view text);

}  // namespace terrace
