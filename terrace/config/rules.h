// Rules between keys, checked once every key has a valid value of its own. That a key has no effect is no rule of these
// but a row of idle.h; rules see such keys at their defaults.
#pragma once

#include <string>
#include <vector>

#include "terrace/config/config.h"

namespace terrace::config {

struct Rule {
  std::vector<std::string> keys;  // full names, the one to blame first; not checked where one of them is invalid
  std::string (*problem)(const Config&);  // "" where the rule holds
};

// Those between keys that every configuration has.
const std::vector<Rule>& core_rules();

}  // namespace terrace::config
