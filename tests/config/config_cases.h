// A small valid configuration that the tests change key by key.
#pragma once

#include <string>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/config/config.h"

namespace terrace::config {

inline const std::string valid_toml = R"([model]
layers = 2
width = 64
heads = 8
sequence = 32
vocabulary = 1000

[data]
train = ["data/a", "data/b"]

[train]
global_batch = 12
steps = 100

[optimizer]
learning_rate = 3e-4

[checkpoint]
folder = "runs/small"
)";

inline Config valid(const std::vector<std::string>& overrides = {}) { return parse(valid_toml, "run.toml", overrides); }

// What parse reports, "" where it accepts.
inline std::string complaint(const std::string& toml, const std::vector<std::string>& overrides = {}) {
  try {
    parse(toml, "run.toml", overrides);
    return "";
  } catch (const UserError& error) {
    return error.what();
  }
}

// The same for the valid configuration with these overrides.
inline std::string complaint_of(const std::vector<std::string>& overrides) { return complaint(valid_toml, overrides); }

}  // namespace terrace::config
