// Reads the names of locales.
#include "terrace/base/text/character_set.h"

#include <cstdlib>
#include <string>

#include "terrace/base/text/lower_case.h"

namespace terrace {

bool locale_is_utf8() {
  for (const char* variable : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(variable);
    if (value == nullptr || *value == '\0') continue;
    std::string name = lower_case(value);
    std::erase(name, '-');
    name = name.substr(0, name.find('@'));  // a modifier, as in ca_ES.UTF-8@valencia
    return name.ends_with("utf8");
  }
  return false;
}

}  // namespace terrace
