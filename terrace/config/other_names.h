// Knows what other training programs call our keys.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace terrace::config {

// The name that another program gives one of our keys, in small letters and with underscores.
struct OtherName {
  std::string_view other, own;
  std::string_view value = "", note = "";  // as in OwnName
};

// Our key for the name that another program uses.
struct OwnName {
  std::string key;  // the full name, such as "train.global_batch" for "batch_size"; "" if no other program has the name
  std::string value;  // TOML, where the name means one value of the key: "fp16" means train.precision = "fp16"
  std::string note;   // a sentence, where our key counts something else
};

// `name` may be written with hyphens or in capitals. `of_family` are the names of the family's own keys.
OwnName own_name_of(std::string_view name, const std::vector<OtherName>& of_family = {});

}  // namespace terrace::config
