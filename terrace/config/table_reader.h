// Reads TOML files other than configurations into structs, such as descriptions of machines. A function states the keys
// of a struct once, for both TableReader and TableWriter; tests/config/table_reader_test.cpp has a small example. A
// field is a pointer to a member, or a function that returns a reference to a part of the struct, const or not.
#pragma once

#include <toml++/toml.h>

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "terrace/config/domain.h"
#include "terrace/config/problems.h"

namespace terrace::config {

// A file under reading and the problems found so far.
class TableFile {
 public:
  // Throws UserError if the text is not TOML.
  TableFile(const std::string& toml, std::string name);

  const toml::table& root() const { return root_; }
  void refuse(const toml::source_region& where, std::string problem);
  void refuse_whole(std::string problem);
  // Throws one UserError with every problem, in the order of the file; returns if there are none.
  void report();

 private:
  Location at(const toml::source_region& where) const;

  std::string name_;
  toml::table root_;
  std::vector<Problem> problems_;
};

// A table of the file, without what its keys mean.
class OpenTable {
 public:
  // `path` precedes the names of its keys in messages, as in "device."; `heading` is as in the file, "[device]", and
  // empty for the keys above all tables.
  OpenTable(TableFile& file, const toml::table& table, std::string path, std::string heading);

  // The value of a key, nullptr if the file has none. The key is known from now on.
  const toml::node* find(std::string_view key);
  // The part of the file below a key, which is one table or a list of tables; other values are refused.
  std::optional<OpenTable> find_table(std::string_view key);
  std::optional<std::vector<OpenTable>> find_list(std::string_view key);
  // `problem` ends a sentence that begins with "KEY = VALUE".
  void refuse(std::string_view key, std::string_view problem);
  void refuse_missing(std::string_view key, std::string_view example);
  void refuse_missing_table(std::string_view key);
  // Refuses the keys that were never looked for, with the nearest known one.
  void refuse_unknown();
  // Whether the key's value was not refused and the key is not missing.
  bool is_valid(std::string_view key) const { return !invalid_.contains(key); }
  void invalidate(std::string_view key) { invalid_.emplace(key); }
  // Whether every key is valid, also in the tables below.
  bool all_valid() const { return invalid_.empty(); }

 private:
  OpenTable below(const toml::table& table, std::string_view key, size_t index) const;
  void refuse_here(std::string problem);

  TableFile* file_;
  const toml::table* table_;
  std::string path_, heading_;
  std::vector<std::string> known_;
  std::set<std::string, std::less<>> invalid_;
};

template <typename Struct>
class TableReader {
 public:
  TableReader(OpenTable& table, Struct& value) : table_(table), value_(value) {}

  // The values that were read so far.
  const Struct& value() const { return value_; }

  // A key that every file must have; `example` is a value as TOML.
  template <typename Field, typename Domain>
  void required(std::string_view key, Field field, const Domain& domain, std::string_view example) {
    if (!read(key, field, domain)) table_.refuse_missing(key, example);
  }
  // A key whose default is that of a new struct.
  template <typename Field, typename Domain>
  void optional(std::string_view key, Field field, const Domain& domain) {
    read(key, field, domain);
  }
  // A table below this one; `keys` states its keys.
  template <typename Field, typename Keys>
  void table(std::string_view key, Field field, const Keys& keys) {
    if (!read_table(key, field, keys)) table_.refuse_missing_table(key);
  }
  template <typename Field, typename Keys>
  void optional_table(std::string_view key, Field field, const Keys& keys) {
    read_table(key, field, keys);
  }
  // A list of tables, read into a vector that the list of the file replaces. `rules` states the rules among them; it is
  // called for each table if all are valid.
  template <typename Field, typename Keys, typename Rules>
  void list(std::string_view key, Field field, const Keys& keys, const Rules& rules) {
    std::optional<std::vector<OpenTable>> tables = table_.find_list(key);
    if (!tables) return;
    auto& values = std::invoke(field, value_);
    values.assign(tables->size(), {});
    for (size_t i = 0; i < values.size(); ++i) read_into((*tables)[i], values[i], keys);
    if (!std::ranges::all_of(*tables, &OpenTable::all_valid)) return table_.invalidate(key);
    for (size_t i = 0; i < values.size(); ++i) {
      TableReader<typename std::remove_reference_t<decltype(values)>::value_type> reader((*tables)[i], values[i]);
      rules(reader);
    }
  }
  // Refuses the first key unless `problem` returns "". Called only if all these keys are valid.
  template <typename Problem>
  void rule(std::initializer_list<std::string_view> keys, const Problem& problem) {
    for (const std::string_view key : keys) {
      if (!table_.is_valid(key)) return;
    }
    const std::string text = problem(value());
    if (!text.empty()) table_.refuse(*keys.begin(), text);
  }

  template <typename Value, typename Keys>
  static void read_into(OpenTable& table, Value& value, const Keys& keys) {
    TableReader<Value> reader(table, value);
    keys(reader);
    table.refuse_unknown();
  }

 private:
  // Whether the file has the key.
  template <typename Field, typename Domain>
  bool read(std::string_view key, Field field, const Domain& domain) {
    const toml::node* node = table_.find(key);
    if (node == nullptr) return false;
    const std::string problem = domain.read(*node, std::invoke(field, value_));
    if (!problem.empty()) table_.refuse(key, problem);
    return true;
  }
  template <typename Field, typename Keys>
  bool read_table(std::string_view key, Field field, const Keys& keys) {
    std::optional<OpenTable> table = table_.find_table(key);
    if (!table) return !table_.is_valid(key);
    read_into(*table, std::invoke(field, value_), keys);
    if (!table->all_valid()) table_.invalidate(key);
    return true;
  }

  OpenTable& table_;
  Struct& value_;
};

// The struct that the file describes; keys that it leaves out are those of `value`. Throws one UserError with every
// problem: file, line, key, bounds, and for an unknown key the nearest known one.
template <typename Struct, typename Keys>
Struct read_tables(const std::string& toml, const std::string& file_name, const Keys& keys, Struct value = {}) {
  TableFile file(toml, file_name);
  OpenTable root(file, file.root(), "", "");
  TableReader<Struct>::read_into(root, value, keys);
  file.report();
  return value;
}

}  // namespace terrace::config
