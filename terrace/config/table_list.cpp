// Words the problems with lists of tables.
#include "terrace/config/table_list.h"

#include <algorithm>

#include "terrace/base/text/spelling.h"

namespace terrace::config {

std::string missing_in_table(const std::string& table, const std::string& key, const std::string& example) {
  return fmt::format("{}.{} is missing; add a line such as {} = {}", table, key, key, example);
}

std::string unknown_in_table(const std::string& table, const std::string& key, const std::vector<TableKey>& keys) {
  if (std::ranges::find(keys, key, &TableKey::name) != keys.end()) return "";
  std::vector<std::string> names;
  for (const TableKey& known : keys) names.push_back(known.name);
  const std::string text = fmt::format("unknown key {}.{}", table, key), nearest = nearest_word(key, names);
  if (!nearest.empty()) return text + fmt::format("; did you mean {}?", nearest);
  return text + fmt::format("; it has {}", listed(names, "and"));
}

std::string no_list_of_tables(const std::string& list) {
  return fmt::format("{0} must be a list of tables, each written [[{0}]]", list);
}

std::string inline_tables(const std::vector<std::vector<std::string>>& tables) {
  std::vector<std::string> texts;
  for (const std::vector<std::string>& lines : tables) texts.push_back(fmt::format("{{{}}}", fmt::join(lines, ", ")));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

std::optional<std::vector<const toml::table*>> tables_of(const toml::node& node) {
  const toml::array* array = node.as_array();
  if (array == nullptr) return std::nullopt;
  std::vector<const toml::table*> tables;
  for (const toml::node& one : *array) {
    if (!one.is_table()) return std::nullopt;
    tables.push_back(one.as_table());
  }
  return tables;
}

}  // namespace terrace::config
