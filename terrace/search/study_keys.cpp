// Reads each table of SPACE.toml by itself.
#include "terrace/search/study_keys.h"

#include <algorithm>
#include <cmath>

#include "terrace/base/error.h"

namespace terrace::search {
namespace {

using config::Flag;
using config::Text;
using config::Whole;
using config::Word;

// The words of a key, and those that later versions will have.
struct BuiltWord {
  std::vector<std::string> words, later;

  std::string read(const toml::node& node, std::string& value) const {
    if (node.is_string() && std::ranges::find(later, *node.value<std::string>()) != later.end()) {
      return fmt::format("is not built yet; use {}", Word{words}.description());
    }
    return Word{words}.read(node, value);
  }
};

struct ObjectiveName {
  std::string read(const toml::node& node, std::string& value) const {
    if (node.is_array()) return "names several objectives, which are not built yet; write one as a string";
    return Text{}.read(node, value);
  }
};

struct ExpressionText {
  std::string read(const toml::node& node, std::string& text) const { return read_expression(node, text); }
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

struct NotBuilt {
  std::string read(const toml::node&, std::string&) const { return "is not built yet; remove it"; }
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
    std::string not_built;
    const auto ignored = [&not_built](auto&) -> std::string& { return not_built; };
    table.required("evaluator", of_settings(&StudySettings::evaluator), BuiltWord{{"simulate"}, {"train", "command"}},
                   "\"simulate\"");
    table.required("objective", of_settings(&StudySettings::objective), ObjectiveName{}, "\"step_seconds\"");
    table.optional("direction", &SearchTable::direction, Word{{"minimize", "maximize"}});
    table.required("config", of_settings(&StudySettings::config), Text{}, "\"configs/frontier-175b.toml\"");
    table.optional("machine", of_settings(&StudySettings::machine), Text{});
    table.optional("software", of_settings(&StudySettings::software), Text{});
    table.optional("devices", of_settings(&StudySettings::devices), ExpressionText{});
    table.optional("method", &SearchTable::method,
                   BuiltWord{{"bayesian", "random", "exhaustive"}, {"successive_halving"}});
    table.optional("trials", of_settings(&StudySettings::trials), Whole{1, 1'000'000'000});
    table.optional("parallel", of_settings(&StudySettings::parallel), Whole{1, 1024});
    table.optional("seed", of_settings(&StudySettings::seed), Whole{0});
    table.optional("constraints", &SearchTable::constraints, Constraints{});
    table.optional("command", ignored, NotBuilt{});
  });
}

bool read_parameter_table(config::OpenTable& open, Parameter& parameter) {
  ParameterTable given;
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
