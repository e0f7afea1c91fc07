// The sizes of a micro-batch by name, where its number of samples does not say how large it is: "atoms", "edges".
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace terrace {

using Sizes = std::map<std::string, int64_t, std::less<>>;

// "1,024 atoms and 8,192 edges".
std::string sizes_text(const Sizes& sizes);

}  // namespace terrace
