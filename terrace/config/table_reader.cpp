// Finds the tables and keys of a file and words the problems with them.
#include "terrace/config/table_reader.h"

#include <algorithm>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/text/spelling.h"
#include "terrace/config/other_format.h"

namespace terrace::config {

TableFile::TableFile(const std::string& toml, std::string name) : name_(std::move(name)) {
  try {
    root_ = toml::parse(toml);
  } catch (const toml::parse_error& error) {
    const std::string other = other_format(toml);
    if (!other.empty()) throw UserError::of("{}: {}", name_, other);
    throw UserError::of("{}: {}", at(error.source()).text, error.description());
  }
}

Location TableFile::at(const toml::source_region& where) const {
  const int line = static_cast<int>(where.begin.line), column = static_cast<int>(where.begin.column);
  return {Location::Source::line, line, column, fmt::format("{}:{}:{}", name_, line, column)};
}

void TableFile::refuse(const toml::source_region& where, std::string problem) {
  problems_.push_back({at(where), std::move(problem)});
}

void TableFile::refuse_whole(std::string problem) {
  problems_.push_back({{Location::Source::file, 0, 0, name_}, std::move(problem)});
}

void TableFile::report() { config::report(std::move(problems_), name_); }

OpenTable::OpenTable(TableFile& file, const toml::table& table, std::string path, std::string heading)
    : file_(&file), table_(&table), path_(std::move(path)), heading_(std::move(heading)) {}

const toml::node* OpenTable::find(std::string_view key) {
  known_.emplace_back(key);
  return table_->get(key);
}

OpenTable OpenTable::below(const toml::table& table, std::string_view key, size_t index) const {
  const std::string name = path_ + std::string(key);
  return index == 0 ? OpenTable(*file_, table, name + ".", "[" + name + "]")
                    : OpenTable(*file_, table, fmt::format("{}[{}].", name, index), "[[" + name + "]]");
}

std::optional<OpenTable> OpenTable::find_table(std::string_view key) {
  const toml::node* node = find(key);
  if (node == nullptr) return std::nullopt;
  if (const toml::table* table = node->as_table()) return below(*table, key, 0);
  refuse(key, fmt::format("must be one table, written [{}{}]", path_, key));
  return std::nullopt;
}

std::optional<std::vector<OpenTable>> OpenTable::find_list(std::string_view key) {
  const toml::node* node = find(key);
  if (node == nullptr) return std::nullopt;
  const toml::array* array = node->as_array();
  std::vector<OpenTable> tables;
  for (size_t i = 0; array != nullptr && i < array->size(); ++i) {
    if (const toml::table* table = array->get(i)->as_table()) tables.push_back(below(*table, key, i + 1));
  }
  if (array != nullptr && !array->empty() && tables.size() == array->size()) return tables;
  refuse(key, fmt::format("must be a list of tables, each written [[{}{}]]", path_, key));
  return std::nullopt;
}

void OpenTable::refuse_here(std::string problem) {
  if (heading_.empty()) {
    file_->refuse_whole(std::move(problem));
  } else {
    file_->refuse(table_->source(), std::move(problem));
  }
}

void OpenTable::refuse(std::string_view key, std::string_view problem) {
  invalidate(key);
  const toml::node* node = table_->get(key);
  if (node == nullptr) return refuse_here(fmt::format("{}{} {}", path_, key, problem));
  const bool is_value = !node->is_table() && !node->is_array_of_tables();
  const std::string value = is_value ? " = " + shown(*node) : "";
  file_->refuse(node->source(), fmt::format("{}{}{} {}", path_, key, value, problem));
}

void OpenTable::refuse_missing(std::string_view key, std::string_view example) {
  invalidate(key);
  refuse_here(fmt::format("{}{} is missing; add{} a line such as {} = {}", path_, key,
                          heading_.empty() ? "" : " to " + heading_, key, example));
}

void OpenTable::refuse_missing_table(std::string_view key) {
  invalidate(key);
  refuse_here(fmt::format("the table [{}{}] is missing", path_, key));
}

void OpenTable::refuse_unknown() {
  for (const auto& [key, node] : *table_) {
    const std::string name{key.str()};
    if (std::ranges::find(known_, name) != known_.end()) continue;
    std::string text = fmt::format("unknown key {}{}; ", path_, name);
    const std::string nearest = nearest_word(name, known_);
    const std::string table = heading_.empty() ? "the file" : heading_;
    text += nearest.empty() ? fmt::format("{} has {}", table, listed(known_, "and"))
                            : fmt::format("did you mean {}?", nearest);
    file_->refuse(key.source(), std::move(text));
  }
}

}  // namespace terrace::config
