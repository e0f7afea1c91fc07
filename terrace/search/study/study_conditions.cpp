// Checks conditions against the parameters that they name and against each other.
#include "terrace/search/study/study_conditions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "terrace/base/text/spelling.h"
#include "terrace/config/domain.h"
#include "terrace/search/study/study_keys.h"

namespace terrace::search {
namespace {

constexpr const char* example = "when = { \"layout.schedule\" = \"interleaved\" }";

const Parameter* find_parameter(const std::vector<Parameter>& parameters, const std::string& name) {
  const auto found = std::ranges::find(parameters, name, &Parameter::name);
  return found == parameters.end() ? nullptr : &*found;
}

std::string listed_values(const std::vector<Value>& values) {
  std::vector<std::string> texts;
  for (const Value& value : values) texts.push_back(toml_text(value));
  return config::listed(texts);
}

// One value, or a list of different ones. Returns the problem, or "".
std::string read_values(const toml::node& node, std::vector<Value>& values) {
  const toml::array* array = node.as_array();
  if (array == nullptr) return read_value(node, values.emplace_back());
  if (array->empty()) return "is empty, so the parameter would never exist; add a value";
  for (const toml::node& one : *array) {
    Value value;
    const std::string problem = read_value(one, value);
    if (!problem.empty()) return fmt::format("has {}, which {}", config::shown(one), problem);
    if (std::ranges::find(values, value) != values.end()) {
      return fmt::format("has {} twice; remove one", config::shown(one));
    }
    values.push_back(value);
  }
  return "";
}

// The parameters on a way by conditions from one parameter back to itself; none if there is no such way.
std::vector<std::string> way_back(const std::vector<Parameter>& parameters, const std::string& to) {
  std::map<std::string, std::string> reached_from;
  std::vector<std::string> reached = {to};
  for (size_t i = 0; i < reached.size(); ++i) {
    for (const Condition& condition : find_parameter(parameters, reached[i])->when) {
      if (!reached_from.emplace(condition.parameter, reached[i]).second) continue;
      reached.push_back(condition.parameter);
    }
  }
  if (!reached_from.contains(to)) return {};
  std::vector<std::string> way = {to};
  while (way.size() == 1 || way.front() != to) way.insert(way.begin(), reached_from[way.front()]);
  return way;
}

}  // namespace

void ConditionReader::refuse(const toml::source_region& where, const std::string& parameter,
                             const std::string& problem) {
  has_problem_ = true;
  file_->refuse(where, fmt::format("parameters.{}.when {}", parameter, problem));
}

void ConditionReader::read(const toml::table& table, bool is_valid, Parameter& parameter) {
  if (!is_valid) invalid_.insert(parameter.name);
  const toml::node* node = table.get("when");
  if (node == nullptr) return;
  const toml::table* conditions = node->as_table();
  if (conditions != nullptr && !conditions->empty()) return read_below(*conditions, "", parameter);
  refuse(node->source(), parameter.name,
         conditions != nullptr
             ? fmt::format("is empty; name a parameter and its value, as in {}", example)
             : fmt::format("= {} must name a parameter and its value, as in {}", config::shown(*node), example));
}

void ConditionReader::read_below(const toml::table& table, const std::string& path, Parameter& parameter) {
  for (const auto& [key, node] : table) {
    const std::string name = path + std::string(key.str());
    if (const toml::table* below = node.as_table()) {
      read_below(*below, name + ".", parameter);
      continue;
    }
    names_.insert(name);
    Condition condition{.parameter = name};
    std::string problem = read_values(node, condition.values);
    if (problem.empty() && std::ranges::find(parameter.when, name, &Condition::parameter) != parameter.when.end()) {
      problem = "is given twice; keep one";
    }
    if (!problem.empty()) {
      refuse(node.source(), parameter.name, fmt::format("has {} = {}, which {}", name, config::shown(node), problem));
      continue;
    }
    places_.push_back({parameter.name, parameter.when.size(), node.source()});
    parameter.when.push_back(std::move(condition));
  }
}

std::string ConditionReader::naming_problem(const Place& place, const std::vector<Parameter>& parameters) const {
  const std::string& name = find_parameter(parameters, place.parameter)->when[place.condition].parameter;
  if (name == place.parameter) return fmt::format("names {} itself; name another parameter", name);
  const Parameter* named = find_parameter(parameters, name);
  const auto is_discrete = [&](const Parameter& one) {
    return one.name != place.parameter && one.type != Parameter::Type::real && !invalid_.contains(one.name);
  };
  if (named != nullptr && (is_discrete(*named) || invalid_.contains(name))) return "";
  std::vector<std::string> candidates;
  for (const Parameter& one : parameters) {
    if (is_discrete(one)) candidates.push_back(one.name);
  }
  const std::string nearest = nearest_word(name, candidates);
  const std::string way_out = !nearest.empty()     ? fmt::format("did you mean {}?", nearest)
                              : candidates.empty() ? "add one that has values"
                                                   : "use " + config::listed(candidates);
  if (named == nullptr) return fmt::format("names {}, which is no parameter of this file; {}", name, way_out);
  return fmt::format("names {}, which is real, but a condition needs a parameter with values or an integer; {}", name,
                     candidates.empty() ? way_out : "use " + config::listed(candidates));
}

std::string ConditionReader::values_problem(const Condition& condition, const Parameter& named) const {
  if (invalid_.contains(named.name)) return "";
  for (const Value& value : condition.values) {
    if (named.coordinate(value)) continue;
    const std::string way_out = named.has_values()
                                    ? "use " + listed_values(named.values)
                                    : fmt::format("use a whole number from {} to {}", named.low, named.high);
    return fmt::format("has {} = {}, which is no value of that parameter; {}", named.name, toml_text(value), way_out);
  }
  return "";
}

// Takes from `left` the values that the conditions of the parameter, and of those that they name, exclude. Returns the
// parameter that none is left of, or "".
std::string ConditionReader::emptied_by(const Parameter& parameter, const std::vector<Parameter>& parameters,
                                        Values& left) const {
  for (const Condition& condition : parameter.when) {
    const auto [values, is_first] = left.emplace(condition.parameter, condition.values);
    std::erase_if(values->second,
                  [&](const Value& one) { return std::ranges::find(condition.values, one) == condition.values.end(); });
    if (values->second.empty()) return condition.parameter;
    if (!is_first) continue;
    std::string emptied = emptied_by(*find_parameter(parameters, condition.parameter), parameters, left);
    if (!emptied.empty()) return emptied;
  }
  return "";
}

void ConditionReader::check(const std::vector<Parameter>& parameters) {
  for (const Place& place : places_) {
    const Condition& condition = find_parameter(parameters, place.parameter)->when[place.condition];
    std::string problem = naming_problem(place, parameters);
    if (problem.empty()) problem = values_problem(condition, *find_parameter(parameters, condition.parameter));
    if (!problem.empty()) refuse(place.where, place.parameter, problem);
  }
  if (has_problem_) return;
  for (const Place& place : places_) {
    if (place.condition > 0) continue;
    const std::vector<std::string> way = way_back(parameters, place.parameter);
    if (way.empty()) continue;
    refuse(place.where, place.parameter,
           fmt::format("leads back to itself: {}; remove one of these conditions", fmt::join(way, " needs ")));
  }
  if (has_problem_) return;
  for (const Place& place : places_) {
    Values left;
    if (place.condition > 0) continue;
    const std::string emptied = emptied_by(*find_parameter(parameters, place.parameter), parameters, left);
    if (emptied.empty()) continue;
    refuse(place.where, place.parameter,
           fmt::format("never holds: the conditions of {} and of the parameters that it names leave no value of {}; "
                       "change one of them",
                       place.parameter, emptied));
  }
}

std::set<std::string> sometimes_missing(const std::vector<Parameter>& parameters, const std::vector<Derived>& derived) {
  std::set<std::string> missing;
  for (const Parameter& parameter : parameters) {
    if (!parameter.when.empty()) missing.insert(parameter.name);
  }
  for (const Derived& one : derived) {
    const auto is_missing = [&](const std::string& name) { return missing.contains(name); };
    if (std::ranges::any_of(one.expression.names(), is_missing)) missing.insert(one.name);
  }
  return missing;
}

}  // namespace terrace::search
