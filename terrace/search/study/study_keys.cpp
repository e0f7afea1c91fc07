// Reads each table of SPACE.toml by itself.
#include "terrace/search/study/study_keys.h"

#include <algorithm>
#include <cmath>

#include "terrace/base/error.h"
#include "terrace/config/quantity.h"
#include "terrace/config/section_keys.h"

namespace terrace::search {
namespace {

using config::Flag;
using config::Text;
using config::Whole;
using config::Word;

// One string, or a list of different ones.
struct Names {
  std::string read(const toml::node& node, std::vector<std::string>& names) const {
    names.clear();
    if (node.is_string()) {
      names.push_back(*node.value<std::string>());
    } else if (const toml::array* array = node.as_array()) {
      for (const toml::node& one : *array) names.push_back(one.value_or(std::string()));
    }
    if (names.empty() || std::ranges::find(names, "") != names.end()) return "must be a string or a list of strings";
    for (const std::string& name : names) {
      if (std::ranges::count(names, name) > 1) return fmt::format("has \"{}\" twice; remove one", name);
    }
    return "";
  }
};

// "simulate", "train", "command", or ["simulate", "train"].
struct Evaluators {
  std::string read(const toml::node& node, std::vector<std::string>& names) const {
    const std::string problem = Names{}.read(node, names);
    const std::vector<std::string> known = {"simulate", "train", "command"};
    const bool is_one = names.size() == 1 && std::ranges::find(known, names[0]) != known.end();
    if (problem.empty() && (is_one || names == std::vector<std::string>{"simulate", "train"})) return "";
    return "must be \"simulate\", \"train\", \"command\" or [\"simulate\", \"train\"]";
  }
};

// One direction for each objective.
struct Directions {
  std::string read(const toml::node& node, std::vector<std::string>& words) const {
    words.clear();
    if (const toml::array* array = node.as_array()) {
      for (const toml::node& one : *array) words.push_back(one.value_or(std::string()));
    } else {
      words.push_back(node.value_or(std::string()));
    }
    const auto is_known = [](const std::string& word) { return word == "minimize" || word == "maximize"; };
    return !words.empty() && std::ranges::all_of(words, is_known)
               ? ""
               : "must be \"minimize\" or \"maximize\", or a list of one for each objective";
  }
};

struct ExpressionText {
  std::string read(const toml::node& node, std::string& text) const { return read_expression(node, text); }
};

// A number of samples, or the name of a folder.
struct NoiseScaleText {
  std::string read(const toml::node& node, std::string& text) const {
    Value value;
    const std::string problem = read_value(node, value);
    if (!problem.empty() || std::holds_alternative<bool>(value)) return "must be a number of samples or a run's folder";
    text = plain_text(value);
    return text.empty() ? "is empty; remove it, or give a number of samples or a run's folder" : "";
  }
};

struct Constraints {
  std::string read(const toml::node& node, std::vector<std::string>& texts) const {
    const toml::array* array = node.as_array();
    if (array == nullptr) {
      return "must be a list of expressions" +
             (node.is_string() ? fmt::format("; write [{}]", config::shown(node)) : std::string());
    }
    for (size_t i = 0; i < array->size(); ++i) {
      const toml::node& one = *array->get(i);
      std::string text;
      const std::string problem = one.is_string() ? read_expression(one, text) : "must be a string";
      if (!problem.empty()) return fmt::format("has {} at place {}: {}", config::shown(one), i + 1, problem);
      texts.push_back(text);
    }
    return "";
  }
};

struct Bounds {
  std::string read(const toml::node& node, std::vector<double>& bounds) const {
    const toml::array* array = node.as_array();
    const bool two = array != nullptr && array->size() == 2 && array->get(0)->is_number() && array->get(1)->is_number();
    if (!two) return "must be two numbers, the lowest and the highest: [1, 16]";
    bounds = {*array->get(0)->value<double>(), *array->get(1)->value<double>()};
    if (!std::isfinite(bounds[0]) || !std::isfinite(bounds[1])) return "must have two finite numbers";
    if (bounds[0] <= bounds[1]) return "";
    return fmt::format("is empty; write [{}, {}]", config::shown(*array->get(1)), config::shown(*array->get(0)));
  }
};

struct Values {
  std::string read(const toml::node& node, std::vector<Value>& values) const {
    const toml::array* array = node.as_array();
    if (array == nullptr) return fmt::format("must be a list; write [{}]", config::shown(node));
    if (array->empty()) return "is empty, so the parameter has no value; add one";
    for (size_t i = 0; i < array->size(); ++i) {
      Value value;
      const std::string problem = read_value(*array->get(i), value);
      const std::string shown = config::shown(*array->get(i));
      if (!problem.empty()) return fmt::format("has {} at place {}, which {}", shown, i + 1, problem);
      if (std::ranges::find(values, value) != values.end()) return fmt::format("has {} twice; remove one", shown);
      values.push_back(value);
    }
    return "";
  }
};

struct ParameterTable {
  std::string type;
  std::vector<double> range = {};
  std::vector<Value> values = {};
  bool log = false;
};

std::string range_problem(const ParameterTable& table) {
  if (table.range.empty()) return "";
  if (table.type == "ordered" || table.type == "categorical") {
    return fmt::format("does not go with type = \"{}\"; list its values, as in values = [1, 2, 4]", table.type);
  }
  if (!table.values.empty()) return "does not go with values; keep one of the two";
  if (table.log && table.range[0] <= 0) return "must lie above 0 with log = true";
  constexpr double most = 1e15;  // every whole number up to here is a double
  const auto is_whole = [](double bound) { return bound == std::floor(bound) && std::abs(bound) <= most; };
  if (table.type == "integer" && !std::ranges::all_of(table.range, is_whole)) {
    return "must have two whole numbers of at most 15 digits, since type = \"integer\"";
  }
  return "";
}

std::string type_problem(const ParameterTable& table) {
  if (!table.range.empty() || !table.values.empty()) return "";
  return table.type == "ordered" || table.type == "categorical" ? "needs its values, as in values = [1, 2, 4]"
                                                                : "needs its bounds, as in range = [1, 16]";
}

std::string values_problem(const ParameterTable& table) {
  if (table.values.empty() || table.type == "categorical" || table.type == "ordered") return "";
  for (const Value& value : table.values) {
    const bool whole = std::holds_alternative<int64_t>(value);
    if (whole || (table.type == "real" && std::holds_alternative<double>(value))) continue;
    return fmt::format("has {}, which is no {}; use type = \"categorical\"", toml_text(value),
                       table.type == "real" ? "number" : "whole number");
  }
  return "";
}

// Keys that the evaluator leaves without effect, and those that it needs.
void refuse_idle_keys(config::OpenTable& open, const SearchTable& search) {
  const auto only = [&](bool has_effect, const char* evaluator, std::initializer_list<const char*> keys) {
    for (const char* key : keys) {
      if (has_effect || open.find(key) == nullptr || !open.is_valid(key)) continue;
      open.refuse(key, fmt::format("has no effect without evaluator = \"{}\"; remove it", evaluator));
    }
  };
  const bool has_runs = search.trains() || search.is_command();
  only(search.is_command(), "command", {"command", "figures"});
  only(search.trains(), "train", {"launcher", "launcher_options", "keep_checkpoints"});
  only(has_runs, "train", {"trial_time", "trial_memory"});
  only(search.simulates(), "simulate", {"machine", "software"});
  only(search.simulates() && !search.trains(), "simulate", {"noise_scale"});
  if (search.is_command() && open.find("command") == nullptr) open.refuse_missing("command", "\"./trial.sh {result}\"");
  if (!search.is_command() && open.find("config") == nullptr) open.refuse_missing("config", "\"configs/tiny.toml\"");
}

}  // namespace

std::string read_value(const toml::node& node, Value& value) {
  if (node.is_boolean()) {
    value = *node.value<bool>();
  } else if (node.is_integer()) {
    value = *node.value<int64_t>();
  } else if (node.is_floating_point() && std::isfinite(*node.value<double>())) {
    value = *node.value<double>();
  } else if (node.is_string()) {
    value = *node.value<std::string>();
  } else {
    return "must be a finite number, a string, true or false";
  }
  return "";
}

std::string read_expression(const toml::node& node, std::string& text) {
  Value value;
  const std::string problem = read_value(node, value);
  if (!problem.empty() || std::holds_alternative<bool>(value)) return "must be a number or an expression in a string";
  const std::string given = plain_text(value);
  try {
    const Expression expression(given);
  } catch (const UserError& error) {
    return fmt::format("is no expression: {}", error.what());
  }
  text = given;
  return "";
}

void read_search_table(config::OpenTable& open, SearchTable& search) {
  config::TableReader<SearchTable>::read_into(open, search, [](auto& table) {
    const auto of_settings = [](auto StudySettings::*field) {
      return [field](auto& one) -> auto& { return one.settings.*field; };
    };
    table.required("evaluator", &SearchTable::evaluators, Evaluators{}, "\"simulate\"");
    table.required("objective", &SearchTable::objectives, Names{}, "\"step_seconds\"");
    table.optional("direction", &SearchTable::directions, Directions{});
    table.optional("config", of_settings(&StudySettings::config), Text{});
    table.optional("machine", of_settings(&StudySettings::machine), Text{});
    table.optional("software", of_settings(&StudySettings::software), Text{});
    table.optional("noise_scale", of_settings(&StudySettings::noise_scale), NoiseScaleText{});
    table.optional("devices", of_settings(&StudySettings::devices), ExpressionText{});
    table.optional("method", &SearchTable::method,
                   Word{{"automatic", "bayesian", "random", "exhaustive", "successive_halving"}});
    table.optional("trials", of_settings(&StudySettings::trials), Whole{1, 1'000'000'000});
    table.optional("parallel", of_settings(&StudySettings::parallel), Whole{1, 1024});
    table.optional("seed", of_settings(&StudySettings::seed), Whole{0});
    table.optional("constraints", &SearchTable::constraints, Constraints{});
    table.optional("command", of_settings(&StudySettings::command), Text{});
    table.optional("figures", &SearchTable::figures, Names{});
    table.optional("launcher", of_settings(&StudySettings::launcher), Word{{"auto", "threads", "mpirun", "srun"}});
    table.optional("launcher_options", of_settings(&StudySettings::launcher_options), Names{});
    table.optional("trial_time", of_settings(&StudySettings::trial_seconds), config::Duration{});
    table.optional("trial_memory", of_settings(&StudySettings::trial_memory), config::Quantity{.least = 1});
    table.optional("keep_checkpoints", of_settings(&StudySettings::keep_checkpoints), Flag{});
  });
  if (!search.evaluators.empty()) {
    const std::string& last = search.evaluators.back();
    search.settings.evaluator = last == "train"     ? Evaluator::train
                                : last == "command" ? Evaluator::command
                                                    : Evaluator::simulate;
    search.settings.predicts_first = search.evaluators.size() == 2;
  }
  if (open.is_valid("evaluator")) refuse_idle_keys(open, search);
}

void read_halving_table(config::OpenTable& open, Halving& halving) {
  config::TableReader<Halving>::read_into(open, halving, [](auto& table) {
    table.required("first", &Halving::first, Whole{1, config::most_steps}, "100");
    table.optional("most", &Halving::most, Whole{1, config::most_steps});
    table.optional("factor", &Halving::factor, Whole{2, 1000});
    table.rule({"most", "first"}, [](const Halving& one) {
      return one.most > 0 && one.most <= one.first ? "must lie above first; write more" : std::string();
    });
  });
}

bool read_parameter_table(config::OpenTable& open, Parameter& parameter) {
  ParameterTable given;
  open.find("when");  // read by ConditionReader
  config::TableReader<ParameterTable>::read_into(open, given, [](auto& table) {
    table.required("type", &ParameterTable::type, Word{{"integer", "real", "ordered", "categorical"}}, "\"integer\"");
    table.optional("range", &ParameterTable::range, Bounds{});
    table.optional("values", &ParameterTable::values, Values{});
    table.optional("log", &ParameterTable::log, Flag{});
    table.rule({"range", "type", "log", "values"}, range_problem);
    table.rule({"type", "range", "values"}, type_problem);
    table.rule({"values", "type"}, values_problem);
    table.rule({"log", "type", "values"}, [](const ParameterTable& one) {
      return one.log && !one.values.empty() ? "has no effect on a list of values; remove it" : std::string();
    });
  });
  if (!open.all_valid()) return false;
  parameter.log = given.log;
  parameter.values = given.values;
  if (given.range.empty()) {
    parameter.type = given.type == "categorical" ? Parameter::Type::categorical : Parameter::Type::ordered;
  } else {
    parameter.type = given.type == "integer" ? Parameter::Type::integer : Parameter::Type::real;
    parameter.low = given.range[0];
    parameter.high = given.range[1];
  }
  return true;
}

}  // namespace terrace::search
