// One descriptor per key of the file. Reading, writing, the check on resume, the page of documentation and the guesses
// at misspelt keys all use the list keys_of() a family.
#pragma once

#include <toml++/toml.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "terrace/config/config.h"

namespace terrace::config {

enum class OnResume {
  may_change,
  fixed,
  names_fixed,  // of paths: the folder may change, the last part of each must not
};

struct Key {
  std::string section, name;
  std::string values;  // "a whole number from 1 to 64"
  std::string about;   // for the page
  OnResume on_resume;
  std::string example;  // of a key that must be given; "" where there is a default
  // What is wrong as the end of a sentence that begins with "KEY = VALUE", or "" where the value was stored.
  std::function<std::string(const toml::node&, Config&)> read;
  std::function<std::string(const Config&)> write;     // as TOML
  std::function<std::string(const Config&)> identity;  // must be equal on resume, unless the key may change

  bool required() const { return !example.empty(); }
  std::string full_name() const { return section + "." + name; }
};

// nullptr where there is none.
const Key* find_key(const std::vector<Key>& keys, std::string_view full_name);
// The tables of a file, in the order of the page.
std::vector<std::string> section_names();

}  // namespace terrace::config
