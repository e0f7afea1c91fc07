// Reads a configuration for a check, which reports its problems together with those of the files that it names.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "terrace/config/config.h"

namespace terrace::config {

// The problems with the files that a configuration names.
using FileProblems = std::function<std::vector<std::string>(const Config&)>;

// Loads a configuration as load() does. Where it throws, the error has these problems too, unless a key has a problem
// by which the files could not be known: in [data] or [checkpoint], model.vocabulary, train.initial_weights or
// model.family.
Config load_for_check(const std::filesystem::path& path, const Families& families,
                      const std::vector<std::string>& overrides, const FileProblems& problems);

}  // namespace terrace::config
