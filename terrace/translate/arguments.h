// The arguments of another program as its user gave them, from a command line, a JSON or a TOML file.
#pragma once

#include <toml++/toml.h>

#include <string>
#include <string_view>
#include <vector>

#include "terrace/base/text/json_fwd.h"

namespace terrace::translate {

struct Argument {
  // Without leading hyphens and with hyphens between words, "num-layers"; of a file the path of the key,
  // "zero_optimization.stage".
  std::string name;
  std::vector<std::string> values;  // empty for a flag
  std::string text;                 // as messages repeat it: "--num-layers 96", "zero_optimization.stage = 1"
};

// Divides the words of a command line: --a b c, --a=b and --flag. Throws UserError for words that belong to no
// argument; `source` says where they are from.
std::vector<Argument> arguments_of(const std::vector<std::string>& words, std::string_view source);

// The values of a file, each list with its elements as values. Values that are null, empty or "auto" count as not
// given.
std::vector<Argument> arguments_of(const Json& object);
std::vector<Argument> arguments_of(const toml::table& table);

}  // namespace terrace::translate
