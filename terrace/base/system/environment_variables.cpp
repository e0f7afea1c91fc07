// Finds the names as a shell does: letters, digits and underscores.
#include "terrace/base/system/environment_variables.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "terrace/base/error.h"

namespace terrace {

std::string with_variables(std::string_view text) {
  std::string result;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '$') {
      result += text[at];
      continue;
    }
    std::string_view rest = text.substr(at + 1);
    if (rest.starts_with('$')) {
      result += '$';
      ++at;
      continue;
    }
    const bool braced = rest.starts_with('{');
    if (braced) rest.remove_prefix(1);
    const auto end = std::ranges::find_if_not(
        rest, [](char letter) { return letter == '_' || std::isalnum(static_cast<unsigned char>(letter)) != 0; });
    const std::string name(rest.begin(), end);
    if (name.empty() || (braced && (end == rest.end() || *end != '}'))) {
      throw UserError::of("\"{}\" has a $ without the name of a variable; write $$ for the sign itself", text);
    }
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) {
      throw UserError::of(
          "\"{}\" names the variable {}, which the environment does not have; set it, or write the "
          "value itself",
          text, name);
    }
    result += value;
    at += name.size() + (braced ? 2 : 0);
  }
  return result;
}

}  // namespace terrace
