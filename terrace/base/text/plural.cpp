// Chooses between the two forms of a word.
#include "terrace/base/text/plural.h"

#include <fmt/format.h>

#include "terrace/base/text/units.h"

namespace terrace {

std::string_view plural(uint64_t count, std::string_view one, std::string_view several) {
  return count == 1 ? one : several;
}

std::string plural(uint64_t count, std::string_view one) { return std::string(one) + (count == 1 ? "" : "s"); }

std::string singular(const std::string& several) {
  return several.ends_with('s') ? several.substr(0, several.size() - 1) : several;
}

std::string counted(uint64_t count, std::string_view one, std::string_view several) {
  return fmt::format("{} {}", format_count(static_cast<int64_t>(count)), plural(count, one, several));
}

std::string counted(uint64_t count, std::string_view one) {
  return fmt::format("{} {}", format_count(static_cast<int64_t>(count)), plural(count, one));
}

}  // namespace terrace
