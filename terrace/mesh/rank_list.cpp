// Joins consecutive ranks.
#include "terrace/mesh/rank_list.h"

#include <fmt/format.h>

namespace terrace::mesh {

std::string rank_list(const std::vector<int64_t>& ranks) {
  std::vector<std::string> parts;
  for (size_t first = 0; first < ranks.size();) {
    size_t last = first;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    // Two neighbours read better as two numbers.
    if (last == first + 1) last = first;
    parts.push_back(last == first ? fmt::format("{}", ranks[first])
                                  : fmt::format("{} to {}", ranks[first], ranks[last]));
    first = last + 1;
  }
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < parts.size(); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : i + 1 == parts.size() ? " and " : ", ", parts[i]);
  }
  return text;
}

}  // namespace terrace::mesh
