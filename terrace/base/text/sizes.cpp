// Puts sizes into words.
#include "terrace/base/text/sizes.h"

#include <fmt/format.h>

#include <iterator>

#include "terrace/base/text/units.h"

namespace terrace {

std::string sizes_text(const Sizes& sizes) {
  std::string text;
  for (auto size = sizes.begin(); size != sizes.end(); ++size) {
    const bool is_last = std::next(size) == sizes.end();
    text += fmt::format("{}{} {}",
                        text.empty() ? ""
                        : is_last    ? " and "
                                     : ", ",
                        format_count(size->second), size->first);
  }
  return text;
}

}  // namespace terrace
