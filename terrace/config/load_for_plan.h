// Reads a configuration for a planner, which reads no data and saves nothing.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "terrace/config/config.h"

namespace terrace::config {

// Loads a configuration as load() does, but only [model], [train] and [layout] must be complete: required keys of other
// tables may be missing.
Config load_for_plan(const std::filesystem::path& path, const Families& families,
                     const std::vector<std::string>& overrides = {}, IdleKeys idle = IdleKeys::warn);
// Reads a text in place of a file; messages call it `file_name`.
Config parse_for_plan(const std::string& toml, const std::string& file_name, const Families& families,
                      const std::vector<std::string>& overrides = {}, IdleKeys idle = IdleKeys::warn);

}  // namespace terrace::config
