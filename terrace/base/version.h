// The version of the program.
#pragma once

#include <string_view>

namespace terrace {

// Returns the version as CMakeLists.txt has it, such as "0.1.0".
std::string_view version();

}  // namespace terrace
