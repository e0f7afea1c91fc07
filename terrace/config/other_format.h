// Recognises files in other formats that are given for TOML.
#pragma once

#include <string>
#include <string_view>

namespace terrace::config {

// Returns what to say of a text that is no TOML: a sentence that names its format and how the same is written in TOML,
// or "" where it is neither YAML nor a JSON object. It looks at the text alone, since names of files say little.
std::string other_format(std::string_view text);

}  // namespace terrace::config
