// A key whose value is a list of tables with keys of their own, such as [[model.outputs]].
#pragma once

#include <fmt/format.h>
#include <toml++/toml.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "terrace/config/domain.h"
#include "terrace/config/key.h"

namespace terrace::config {

// The text of a missing key, of an unknown one with the nearest known one, and of a value that is no list of tables.
std::string missing_in_table(const std::string& table, const std::string& key, const std::string& example);
std::string unknown_in_table(const std::string& table, const std::string& key, const std::vector<TableKey>& keys);
std::string no_list_of_tables(const std::string& list);

// Tables as one value, such as [{name = "energy", weight = 2.0}], from the lines of each.
std::string inline_tables(const std::vector<std::vector<std::string>>& tables);

// The tables of the list; no value where the node is none.
std::optional<std::vector<const toml::table*>> tables_of(const toml::node& node);

// The keys of one table, which a struct holds. A family states them as it states those of a section.
template <typename Struct>
class TableListKeys {
 public:
  // A key that every table must have; `example` is a value as TOML.
  template <typename Field, typename Domain>
  void required(const char* name, Field Struct::*field, const Domain& domain, const char* example, const char* about) {
    own_.push_back({.read = [=](const toml::node& node, Struct& value) { return domain.read(node, value.*field); },
                    .write = [=](const Struct& value) { return toml_text(value.*field); }});
    described_.push_back(
        {.name = name, .values = domain.description(), .about = about, .example = example, .default_value = ""});
  }
  // A key whose default is the field's.
  template <typename Field, typename Domain>
  void optional(const char* name, Field Struct::*field, const Domain& domain, const char* about) {
    required(name, field, domain, "", about);
    described_.back().default_value = toml_text(Struct{}.*field);
  }

  const std::vector<TableKey>& described() const { return described_; }

  // Reads the list in the place of what was there, if nothing is wrong with it. `list` is the key's name in messages,
  // where tables are counted from 1: "model.outputs[1].weight".
  std::vector<TableProblem> read(const toml::node& node, const std::string& list, std::vector<Struct>& values) const {
    const auto tables = tables_of(node);
    if (!tables) return {{node.source(), no_list_of_tables(list)}};
    std::vector<TableProblem> problems;
    std::vector<Struct> given(tables->size());
    for (size_t i = 0; i < given.size(); ++i) {
      read_table(*(*tables)[i], fmt::format("{}[{}]", list, i + 1), given[i], problems);
    }
    if (problems.empty()) values = std::move(given);
    return problems;
  }

  // Each key that has not its default, as "weight = 2.0".
  std::vector<std::string> lines(const Struct& value) const {
    std::vector<std::string> texts;
    for (size_t i = 0; i < own_.size(); ++i) {
      const std::string text = own_[i].write(value);
      if (text != described_[i].default_value) texts.push_back(described_[i].name + " = " + text);
    }
    return texts;
  }

 private:
  struct OwnKey {
    std::function<std::string(const toml::node&, Struct&)> read;
    std::function<std::string(const Struct&)> write;
  };

  void read_table(const toml::table& table, const std::string& name, Struct& value,
                  std::vector<TableProblem>& problems) const {
    for (size_t i = 0; i < own_.size(); ++i) {
      const TableKey& key = described_[i];
      const toml::node* node = table.get(key.name);
      if (node == nullptr) {
        if (key.required()) problems.push_back({table.source(), missing_in_table(name, key.name, key.example)});
        continue;
      }
      const std::string problem = own_[i].read(*node, value);
      if (problem.empty()) continue;
      problems.push_back({node->source(), fmt::format("{}.{} = {} {}", name, key.name, shown(*node), problem)});
    }
    for (const auto& [key, node] : table) {
      const std::string text = unknown_in_table(name, std::string(key.str()), described_);
      if (!text.empty()) problems.push_back({key.source(), text});
    }
  }

  std::vector<OwnKey> own_;
  std::vector<TableKey> described_;
};

}  // namespace terrace::config
