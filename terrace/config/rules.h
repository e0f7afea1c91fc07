// Rules between keys, checked once every key has a valid value of its own.
#pragma once

#include <string>
#include <vector>

#include "terrace/config/config.h"

namespace terrace::config {

struct Rule {
  std::vector<std::string> keys;  // full names, the one to blame first; not checked where one of them is invalid
  std::string (*problem)(const Config&);  // "" where the rule holds
};

const std::vector<Rule>& rules();

// Zeros that mean "derive it" replaced by their values.
void derive(Config& config);

}  // namespace terrace::config
