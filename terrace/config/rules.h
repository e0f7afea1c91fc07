// Rules between keys, which are checked when every key has a valid value of its own. Keys without effect are the
// subject of idle.h; rules see these keys at their defaults.
#pragma once

#include <string>
#include <vector>

#include "terrace/config/config.h"

namespace terrace::config {

struct Rule {
  // Full names; a problem is reported at the first one. The rule is not checked if one of the keys is invalid.
  std::vector<std::string> keys;
  std::string (*problem)(const Config&);  // "" if the rule holds
};

// The rules between the keys that every configuration has.
const std::vector<Rule>& core_rules();

}  // namespace terrace::config
