// A small valid configuration that the tests change key by key.
#pragma once

#include <toml++/toml.h>

#include <sstream>
#include <string>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/config/family.h"
#include "terrace/data/text/text_config.h"
#include "terrace/models/gpt/settings/config.h"
#include "terrace/models/planned_families.h"

namespace terrace::config {

inline const Family* gpt() { return models::planned_families().front(); }

inline Config parsed(const std::string& toml, const std::string& file_name,
                     const std::vector<std::string>& overrides = {}, IdleKeys idle = IdleKeys::refuse) {
  return parse(toml, file_name, models::planned_families(), overrides, idle);
}

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

inline Config valid(const std::vector<std::string>& overrides = {}) {
  return parsed(valid_toml, "run.toml", overrides);
}

// The valid file in which keys "section.key=value" are added or replaced; the value is TOML or a bare word.
inline std::string file_with(const std::vector<std::string>& given) {
  toml::table file = toml::parse(valid_toml);
  for (const std::string& text : given) {
    const size_t dot = text.find('.'), equals = text.find('=');
    const std::string section = text.substr(0, dot), value = text.substr(equals + 1);
    toml::table parsed;
    try {
      parsed = toml::parse("value = " + value);
    } catch (const toml::parse_error&) {
      parsed.insert("value", value);
    }
    if (!file.contains(section)) file.insert(section, toml::table{});
    file[section].as_table()->insert_or_assign(text.substr(dot + 1, equals - dot - 1), *parsed.get("value"));
  }
  std::stringstream stream;
  stream << file << "\n";
  return stream.str();
}

// The error of parse(); "" if it accepts the text.
inline std::string complaint(const std::string& toml, const std::vector<std::string>& overrides = {}) {
  try {
    parsed(toml, "run.toml", overrides);
    return "";
  } catch (const UserError& error) {
    return error.what();
  }
}

// The error of parse() for the valid configuration with these overrides.
inline std::string complaint_of(const std::vector<std::string>& overrides) { return complaint(valid_toml, overrides); }

}  // namespace terrace::config
