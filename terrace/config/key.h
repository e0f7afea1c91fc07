// Defines the descriptor of one key of the file. Reading, writing, the check on resume, the page of documentation and
// the suggestions for misspelt keys all use the list that keys_of() returns.
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
  names_fixed,  // for paths: the folder may change, the last part of each path must not
};

// A key of each table of a list, for the page.
struct TableKey {
  std::string name, values, about;
  std::string example;        // a value of a required key as TOML; "" for a key with a default
  std::string default_value;  // as TOML

  bool required() const { return !example.empty(); }
};

// A problem in a list of tables, as a whole sentence.
struct TableProblem {
  toml::source_region where;
  std::string text;
};

struct Key {
  std::string section, name;
  std::string values;  // "a whole number from 1 to 64"
  std::string about;   // the description on the page
  OnResume on_resume;
  std::string example;  // a value of a required key as TOML; "" for a key with a default
  // Returns the problem as the end of a sentence that begins with "KEY = VALUE", or "" if the value was stored.
  std::function<std::string(const toml::node&, Config&)> read;
  std::function<std::string(const Config&)> write;     // as TOML
  std::function<std::string(const Config&)> identity;  // what must be equal on resume, unless the key may change
  bool dumped_at_default = true;                       // whether dump() writes the key when it has its default
  // Three members of a key whose value is a list of tables (table_list.h), else null: the keys of a table, a function
  // that returns all problems with a value and stores it where there is none, and the lines of each table.
  std::vector<TableKey> table_keys = {};
  std::function<std::vector<TableProblem>(const toml::node&, Config&)> read_tables = {};
  std::function<std::vector<std::vector<std::string>>(const Config&)> table_lines = {};

  bool required() const { return !example.empty(); }
  std::string full_name() const { return section + "." + name; }
};

// The keys that every configuration has: model.family, whose value is this family, and all keys outside of [model] and
// [data].
std::vector<Key> core_keys(const Family* family);
// nullptr if no key has the name.
const Key* find_key(const std::vector<Key>& keys, std::string_view full_name);
// The tables of a file, in the order of the page.
std::vector<std::string> section_names();
// Whether a family decides which keys the table has, apart from model.family.
bool is_family_section(std::string_view section);

}  // namespace terrace::config
