// Lists a resolved configuration key by key, for programs that compare two configurations.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "terrace/config/config.h"

namespace terrace::config {

// Every key with its value as TOML: {"model.layers", "12"}.
std::vector<std::pair<std::string, std::string>> key_values(const Config& config);

}  // namespace terrace::config
