// Finds the kinds of columns by their names and values.
#include "terrace/search/explain/trial_table.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/search/results_table.h"
#include "terrace/search/study/value.h"

namespace terrace::search {
namespace {

constexpr double no_number = std::numeric_limits<double>::quiet_NaN();

// Gives each value its place in the order of `keys`, which are numbers or words, one for each row.
template <typename Key>
void order_values(const std::vector<Key>& keys, const std::vector<std::string>& texts, TriedParameter& parameter) {
  std::map<Key, size_t> places;
  for (const Key& key : keys) places[key] = 0;
  for (size_t place = 0; auto& [key, own] : places) own = place++;
  parameter.values.resize(places.size());
  for (size_t row = 0; row < keys.size(); ++row) {
    parameter.indices.push_back(places[keys[row]]);
    parameter.values[parameter.indices.back()] = texts[row];
  }
}

TriedParameter read_parameter(const ResultsTable& table, size_t column) {
  TriedParameter parameter{.name = table.columns()[column].substr(2), .is_numeric = true};
  std::vector<std::string> texts;
  std::vector<double> numbers;
  for (size_t row = 0; row < table.size(); ++row) {
    const std::string& text = table.cell(row, column);
    const std::optional<double> number = parse_number(text);
    texts.push_back(is_missing(text) ? "" : text);
    numbers.push_back(number.value_or(-std::numeric_limits<double>::infinity()));
    parameter.is_numeric = parameter.is_numeric && (number || texts.back().empty());
  }
  if (parameter.is_numeric) {
    order_values(numbers, texts, parameter);
  } else {
    order_values(texts, texts, parameter);
  }
  return parameter;
}

// The columns of objectives, in order.
std::vector<size_t> objective_columns(const ResultsTable& table) {
  const auto& columns = table.columns();
  const auto find = [&](const std::string& name) {
    const auto found = std::ranges::find(columns, name);
    return found == columns.end() ? std::nullopt : std::optional(static_cast<size_t>(found - columns.begin()));
  };
  if (const auto only = find("objective")) return {*only};
  std::vector<size_t> found;
  while (const auto next = find(fmt::format("objective_{}", found.size()))) found.push_back(*next);
  return found;
}

// Names and directions of the objectives from "objective = step_seconds, to be minimized", a line of study.txt for
// each.
std::vector<TriedFigure> recorded_objectives(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "study.txt";
  if (!std::filesystem::exists(path)) return {};
  constexpr std::string_view begin = "objective", least = ", to be minimized", most = ", to be maximized";
  std::vector<TriedFigure> objectives;
  std::istringstream lines(read_text(path));
  for (std::string line; std::getline(lines, line);) {
    const size_t equals = line.find(" = ");
    const bool is_least = line.ends_with(least);
    if (!line.starts_with(begin) || equals == std::string::npos || !(is_least || line.ends_with(most))) continue;
    const size_t at = equals + 3;
    objectives.push_back(
        {.name = line.substr(at, line.size() - (is_least ? least : most).size() - at), .smaller_is_better = is_least});
  }
  return objectives;
}

// The objective in its natural sign; none if the trial failed.
std::optional<double> read_one_objective(const ResultsTable& table, size_t row, size_t column) {
  const std::string& text = table.cell(row, column);
  if (const std::optional<double> number = parse_number(text)) return number;
  if (text.starts_with('F')) return std::nullopt;
  throw UserError::of("{}: {} = {} is neither a number nor a failure, such as F_oom; correct or remove the row",
                      table.place(row), table.columns()[column], text.empty() ? "nothing" : text);
}

void read_objectives(const ResultsTable& table, TrialTable& trials) {
  const std::vector<size_t> columns = objective_columns(table);
  if (columns.empty()) {
    throw UserError::of("{}: has no column objective; give a results.csv of terrace search or of DeepHyper",
                        trials.path.string());
  }
  trials.objectives = recorded_objectives(trials.path.parent_path());
  if (trials.objectives.size() != columns.size()) {
    trials.objectives.clear();
    for (const size_t column : columns) trials.objectives.push_back({.name = table.columns()[column]});
  }
  for (size_t row = 0; row < table.size(); ++row) {
    std::string failure;
    for (size_t i = 0; i < columns.size(); ++i) {
      TriedFigure& objective = trials.objectives[i];
      const std::optional<double> value = read_one_objective(table, row, columns[i]);
      if (!value) failure = table.cell(row, columns[i]);
      objective.values.push_back(!value ? no_number : objective.smaller_is_better ? -*value : *value);
    }
    if (!failure.empty()) {
      for (TriedFigure& objective : trials.objectives) objective.values.back() = no_number;
    }
    trials.failures.push_back(failure);
  }
}

// Reads a column of figures; none if a cell holds a word, or all cells are empty.
std::optional<TriedFigure> read_figure(const ResultsTable& table, size_t column) {
  TriedFigure figure{.name = table.columns()[column].substr(2)};
  // These are the figures of `terrace search` that are costs.
  figure.smaller_is_better = figure.name.ends_with("_seconds") || figure.name.ends_with("_bytes") ||
                             figure.name.ends_with("loss") || figure.name == "median_difference";
  bool has_number = false;
  for (size_t row = 0; row < table.size(); ++row) {
    const std::string& text = table.cell(row, column);
    const std::optional<double> number = parse_number(text);
    if (!number && !is_missing(text)) return std::nullopt;
    has_number = has_number || number;
    figure.values.push_back(number.value_or(no_number));
  }
  if (!has_number) return std::nullopt;
  return figure;
}

// Keeps the rows of the first budget. With successive halving a row is a budget that a trial has reached, and all
// trials have reached the first.
void keep_first_budget(ResultsTable& table) {
  // DeepHyper's m:budget is not that of a part of a trial.
  if (std::ranges::find(table.columns(), "m:trial") == table.columns().end()) return;
  std::optional<double> first;
  const auto budget = [&](size_t row) { return parse_number(table.cell(row, "m:budget")); };
  for (size_t row = 0; row < table.size(); ++row) {
    const std::optional<double> own = budget(row);
    if (own && (!first || *own < *first)) first = own;
  }
  std::vector<bool> is_wanted;
  for (size_t row = 0; row < table.size(); ++row) is_wanted.push_back(budget(row) == first);
  table.keep([&](size_t row) { return is_wanted[row]; });
}

}  // namespace

size_t TrialTable::failed() const {
  return static_cast<size_t>(std::ranges::count_if(failures, [](const std::string& one) { return !one.empty(); }));
}

TrialTable read_trial_table(const std::filesystem::path& path) {
  TrialTable trials{.path = std::filesystem::is_directory(path) ? path / "results.csv" : path};
  ResultsTable table(trials.path, read_text(trials.path));
  keep_first_budget(table);
  std::set<std::string> names;
  for (size_t column = 0; column < table.columns().size(); ++column) {
    const std::string& name = table.columns()[column];
    if (!names.insert(name).second)
      throw UserError::of("{}:1: has two columns {}; remove one of them", trials.path.string(), name);
    if (name.starts_with("p:")) trials.parameters.push_back(read_parameter(table, column));
    if (!name.starts_with("m:") || name.starts_with("m:timestamp") || name == "m:trial" || name == "m:budget") continue;
    if (std::optional<TriedFigure> figure = read_figure(table, column)) trials.figures.push_back(std::move(*figure));
  }
  if (trials.parameters.empty()) {
    throw UserError::of(
        "{}: has no column of a parameter, such as p:layout.tensor; give a results.csv of terrace "
        "search or of DeepHyper",
        trials.path.string());
  }
  read_objectives(table, trials);
  for (size_t row = 0; row < table.size(); ++row) {
    const std::string id = table.cell(row, "job_id");
    trials.job_ids.push_back(id.empty() ? std::to_string(row) : id);
  }
  return trials;
}

}  // namespace terrace::search
