// Makes the descriptors of the keys of one table of the file.
#pragma once

#include <string>
#include <type_traits>
#include <vector>

#include "terrace/config/domain.h"
#include "terrace/config/key.h"
#include "terrace/config/table_list.h"

namespace terrace::config {

// Upper limits of whole numbers, so that no product that counts parameters or samples exceeds 63 bits.
constexpr int64_t most_layers = 100'000;
constexpr int64_t most_width = 1'000'000;
constexpr int64_t most_ranks = 1 << 24;
constexpr int64_t most_steps = 1'000'000'000'000;
constexpr int64_t most_step_samples = 100'000'000;  // of one step
constexpr int64_t most_samples = 1'000'000'000'000'000;

constexpr Real positive{.least = 0, .least_excluded = true};
constexpr Real share{.least = 0, .most = 1, .most_excluded = true};  // [0, 1)

// The last parts of paths, whether or not they end with a slash.
std::string without_folder(const std::string& path);
std::vector<std::string> without_folder(std::vector<std::string> paths);
template <typename Value>
const Value& without_folder(const Value& value) {
  return value;
}

// Appends keys to `list`. `table` returns a reference to the struct of a Config, const or not, with the table's values.
template <typename Table>
struct SectionKeys {
  std::string section;
  Table table;
  std::vector<Key>& list;

  // Adds a key that every file must have; `example` is a value as TOML.
  template <typename Section, typename Field, typename Domain>
  void required(const char* name, Field Section::*field, const Domain& domain, OnResume on_resume, const char* example,
                const char* about) const {
    const auto find = table;
    list.push_back(
        {.section = section,
         .name = name,
         .values = domain.description(),
         .about = about,
         .on_resume = on_resume,
         .example = example,
         .read = [=](const toml::node& node, Config& config) { return domain.read(node, find(config).*field); },
         .write = [=](const Config& config) { return toml_text(find(config).*field); },
         .identity =
             [=](const Config& config) {
               const Field& value = find(config).*field;
               return on_resume == OnResume::names_fixed ? toml_text(without_folder(value)) : toml_text(value);
             }});
  }

  // Adds a key whose default is the field's.
  template <typename Section, typename Field, typename Domain>
  void optional(const char* name, Field Section::*field, const Domain& domain, OnResume on_resume,
                const char* about) const {
    required(name, field, domain, on_resume, "", about);
  }

  // Adds a key whose value is a list of tables; at least one where there is an `example`, as a list of inline tables.
  template <typename Section, typename Struct>
  void tables(const char* name, std::vector<Struct> Section::*field, const TableListKeys<Struct>& keys,
              OnResume on_resume, const char* example, const char* about) const {
    const auto find = table;
    const std::string full_name = section + "." + name;
    const auto read_tables = [=](const toml::node& node, Config& config) {
      return keys.read(node, full_name, find(config).*field);
    };
    const auto table_lines = [=](const Config& config) {
      std::vector<std::vector<std::string>> all;
      for (const Struct& one : find(config).*field) all.push_back(keys.lines(one));
      return all;
    };
    const auto write = [=](const Config& config) { return inline_tables(table_lines(config)); };
    list.push_back({.section = section,
                    .name = name,
                    .values = "a list of tables",
                    .about = about,
                    .on_resume = on_resume,
                    .example = example,
                    .read =
                        [=](const toml::node& node, Config& config) {
                          const std::vector<TableProblem> problems = read_tables(node, config);
                          return problems.empty() ? "" : "has a problem: " + problems.front().text;
                        },
                    .write = write,
                    .identity = write,
                    .table_keys = keys.described(),
                    .read_tables = read_tables,
                    .table_lines = table_lines});
  }

  // Adds such a key for a feature that most models lack: dump() leaves it out at its default.
  template <typename Section, typename Field, typename Domain>
  void feature(const char* name, Field Section::*field, const Domain& domain, OnResume on_resume,
               const char* about) const {
    optional(name, field, domain, on_resume, about);
    list.back().dumped_at_default = false;
  }
};

template <typename Table>
SectionKeys(std::string, Table, std::vector<Key>&) -> SectionKeys<Table>;

}  // namespace terrace::config
