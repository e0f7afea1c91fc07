// Knows what other training programs call our keys.
#pragma once

#include <string>
#include <string_view>

namespace terrace::config {

// Our key for the name that another program uses.
struct OwnName {
  std::string key;  // the full name, such as "train.global_batch" for "batch_size"; "" if no other program has the name
  std::string value;  // TOML, where the name means one value of the key: "fp16" means train.precision = "fp16"
  std::string note;   // a sentence, where our key counts something else
};

// `name` may be written with hyphens or in capitals.
OwnName own_name_of(std::string_view name);

}  // namespace terrace::config
