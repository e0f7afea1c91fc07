// One error for several problems of the same kind.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace terrace {

// Throws UserError with the only problem, or with the first ten as lines below a heading such as "3 input files that
// cannot be read"; returns if there are none.
void throw_problems(const std::vector<std::string>& problems, std::string_view what);

}  // namespace terrace
