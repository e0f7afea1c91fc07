// The tables of SPACE.toml as structs, each value checked on its own.
#pragma once

#include <string>
#include <vector>

#include "terrace/config/table_reader.h"
#include "terrace/search/study/study.h"

namespace terrace::search {

// [search], with what the file says in words.
struct SearchTable {
  StudySettings settings;
  std::vector<std::string> evaluators, objectives, directions, figures;
  std::string method = "automatic";
  std::vector<std::string> constraints;

  bool trains() const { return settings.evaluator == Evaluator::train; }
  bool simulates() const { return settings.evaluator == Evaluator::simulate || settings.predicts_first; }
  bool is_command() const { return settings.evaluator == Evaluator::command; }
};
void read_search_table(config::OpenTable& table, SearchTable& search);

// [halving].
void read_halving_table(config::OpenTable& table, Halving& halving);

// [parameters.NAME] without its conditions. Returns whether all of the table is valid.
bool read_parameter_table(config::OpenTable& table, Parameter& parameter);

// The text of an expression, from a number or a string; unchanged if there is a problem. Returns the problem, or "".
std::string read_expression(const toml::node& node, std::string& text);

// A string, a number, true or false. Returns the problem, or "".
std::string read_value(const toml::node& node, Value& value);

}  // namespace terrace::search
