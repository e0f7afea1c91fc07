// Draws, enumerates and scales the points of a space.
#include "terrace/search/study/space.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "terrace/base/error.h"

namespace terrace::search {
namespace {

using Type = Parameter::Type;

double uniform_at(PhiloxKey key, uint64_t number, size_t index) {
  const PhiloxBlock block = philox_at(key, number, index);
  return unit_uniform(block[0], block[1]);
}

// Whether a parameter exists at a point that does not exist at the other one.
bool has_another_parameter(const Point& point, const Point& than) {
  for (size_t i = 0; i < point.size(); ++i) {
    if (point[i] != absent && than[i] == absent) return true;
  }
  return false;
}

}  // namespace

Space::Space(std::vector<Parameter> parameters, std::vector<Derived> derived, std::vector<Expression> constraints,
             const std::map<std::string, double>& constants)
    : parameters_(std::move(parameters)),
      existence_(parameters_),
      grid_(parameters_, existence_),
      derived_(std::move(derived)),
      constraints_(std::move(constraints)) {
  draws_once_ = grid_size() && std::ranges::none_of(parameters_, &Parameter::log);
  std::map<std::string, size_t> slots;
  for (const Parameter& parameter : parameters_) slots.emplace(parameter.name, slots.size());
  for (const Derived& one : derived_) slots.emplace(one.name, slots.size());
  numbers_.resize(slots.size(), std::numeric_limits<double>::quiet_NaN());
  const auto slot_of = [&](const std::string& name) {
    const auto [slot, is_constant] = slots.emplace(name, slots.size());
    if (is_constant) {
      const auto constant = constants.find(name);
      TERRACE_CHECK(constant != constants.end(), "nothing has the name {}", name);
      numbers_.push_back(constant->second);
    }
    return slot->second;
  };
  for (Derived& one : derived_) one.expression.bind(slot_of);
  for (Expression& constraint : constraints_) constraint.bind(slot_of);
}

// The coordinate below which a share of the parameter's values lies.
double Space::coordinate_at(const Parameter& parameter, double share) const {
  if (parameter.has_values()) return std::floor(share * static_cast<double>(parameter.values.size()));
  const bool whole = parameter.type == Type::integer;
  const double low = parameter.low, end = parameter.high + (whole ? 1 : 0);
  const double at = parameter.log ? low * std::pow(end / low, share) : low + share * (end - low);
  return std::clamp(whole ? std::floor(at) : at, low, parameter.high);
}

std::optional<Point> Space::draw(PhiloxKey key, uint64_t number) const {
  const uint64_t size = grid_size().value_or(0), first_in_turn = is_conditional() ? size : 0;
  if (draws_once_ && number >= first_in_turn) {
    if (number - first_in_turn >= size) return std::nullopt;
    return grid_point(permute(key, size, number - first_in_turn));
  }
  Point point;
  for (const Parameter& parameter : parameters_) {
    point.push_back(coordinate_at(parameter, uniform_at(key, number, point.size())));
  }
  return existence_.without_absent(std::move(point));
}

// The point after a change of a coordinate: without parameters that exist no more, and with random values of those that
// have come to exist.
Point Space::settled(Point point, PhiloxKey key, uint64_t number) const {
  for (const size_t i : existence_.order()) {
    if (!existence_.exists(i, point)) {
      point[i] = absent;
    } else if (point[i] == absent) {
      point[i] = coordinate_at(parameters_[i], uniform_at(key, number, i));
    }
  }
  return point;
}

std::vector<Point> Space::neighbours(const Point& point, PhiloxKey key) const {
  constexpr uint64_t steps = 4;  // of a range, and values of parameters that come to exist
  std::vector<Point> list;
  const auto add = [&](size_t index, double coordinate) {
    if (coordinate == point[index]) return;
    Point moved = point;
    moved[index] = coordinate;
    for (uint64_t number = 0; number < steps; ++number) {
      list.push_back(settled(moved, key, steps + list.size()));
      if (!has_another_parameter(list.back(), point)) break;
    }
  };
  for (size_t i = 0; i < point.size(); ++i) {
    const Parameter& parameter = parameters_[i];
    const double here = point[i];
    if (here == absent) continue;
    if (parameter.has_values()) {
      for (size_t value = 0; value < parameter.values.size(); ++value) {
        const auto coordinate = static_cast<double>(value);
        if (parameter.type == Type::categorical || std::abs(coordinate - here) == 1) add(i, coordinate);
      }
      continue;
    }
    // Steps of all sizes from the whole range down to a thousandth of it.
    for (uint64_t number = 0; number < steps; ++number) {
      const double step = std::pow(10.0, -3 * uniform_at(key, number, i));
      for (const double sign : {-1.0, 1.0}) {
        const double moved = parameter.log ? here * std::pow(parameter.high / parameter.low, sign * step)
                                           : here + sign * step * (parameter.high - parameter.low);
        const double rounded = parameter.type == Type::integer ? std::round(moved) : moved;
        add(i, std::clamp(rounded, parameter.low, parameter.high));
      }
    }
    if (parameter.type == Type::integer) {
      for (const double next : {here - 1, here + 1}) add(i, std::clamp(next, parameter.low, parameter.high));
    }
  }
  return list;
}

std::vector<double> Space::numbers(const Point& point) const {
  std::vector<double> numbers = numbers_;
  for (size_t i = 0; i < point.size(); ++i) {
    if (point[i] != absent) numbers[i] = number_of(parameters_[i].value(point[i]));
  }
  for (size_t i = 0; i < derived_.size(); ++i) {
    numbers[point.size() + i] = derived_[i].expression.evaluate(numbers);
  }
  return numbers;
}

// Whether each parameter and each derived number does not exist; empty if all exist. A number that is derived from a
// parameter that does not exist does not exist either.
std::vector<bool> Space::missing_numbers(const Point& point) const {
  if (std::ranges::find(point, absent) == point.end()) return {};
  std::vector<bool> missing;
  for (const double coordinate : point) missing.push_back(coordinate == absent);
  for (const Derived& one : derived_) missing.push_back(is_missing_in(one.expression, missing));
  return missing;
}

bool Space::is_missing_in(const Expression& expression, const std::vector<bool>& missing) const {
  return std::ranges::any_of(expression.slots(), [&](size_t slot) { return slot < missing.size() && missing[slot]; });
}

std::vector<bool> Space::held_constraints(const Point& point) const {
  const std::vector<double> values = numbers(point);
  const std::vector<bool> missing = missing_numbers(point);
  std::vector<bool> held;
  for (const Expression& one : constraints_) {
    held.push_back(is_missing_in(one, missing) || is_true(one.evaluate(values)));
  }
  return held;
}

bool Space::holds_constraints(const Point& point) const {
  if (constraints_.empty()) return true;
  const std::vector<bool> held = held_constraints(point);
  return std::ranges::find(held, false) == held.end();
}

std::optional<std::vector<uint64_t>> Space::held_points(uint64_t most) const {
  const std::optional<uint64_t> size = grid_size();
  if (!size || *size > most_counted) return std::nullopt;
  std::vector<uint64_t> points;
  for (uint64_t index = 0; index < *size; ++index) {
    if (!holds_constraints(grid_point(index))) continue;
    if (points.size() == most) return std::nullopt;
    points.push_back(index);
  }
  return points;
}

double Space::number(const Point& point, const std::string& name) const {
  const auto parameter = std::ranges::find(parameters_, name, &Parameter::name);
  if (parameter != parameters_.end()) return numbers(point)[static_cast<size_t>(parameter - parameters_.begin())];
  const auto derived = std::ranges::find(derived_, name, &Derived::name);
  TERRACE_CHECK(derived != derived_.end(), "nothing has the name {}", name);
  return numbers(point)[parameters_.size() + static_cast<size_t>(derived - derived_.begin())];
}

std::vector<bool> Space::categorical() const {
  std::vector<bool> list;
  for (const Parameter& parameter : parameters_) list.push_back(parameter.type == Type::categorical);
  return list;
}

bool Space::has(const std::string& name) const {
  return std::ranges::find(parameters_, name, &Parameter::name) != parameters_.end() ||
         std::ranges::find(derived_, name, &Derived::name) != derived_.end();
}

std::string Space::text_of(const Point& point, const std::string& name) const {
  const auto parameter = std::ranges::find(parameters_, name, &Parameter::name);
  if (parameter != parameters_.end()) return texts(point)[static_cast<size_t>(parameter - parameters_.begin())];
  const auto derived = std::ranges::find(derived_, name, &Derived::name);
  if (derived != derived_.end() && is_missing_in(derived->expression, missing_numbers(point))) return "";
  const double value = number(point, name);
  if (!std::isfinite(value)) throw UserError::of("{} has no value, such as after a division by 0", name);
  return plain_text(whole_or_real(value));
}

std::vector<std::string> Space::settings(const Point& point) const {
  const std::vector<double> values = numbers(point);
  const std::vector<bool> missing = missing_numbers(point);
  std::vector<std::string> list;
  const auto add = [&](const std::string& name, const Value& value) { list.push_back(name + "=" + toml_text(value)); };
  for (size_t i = 0; i < point.size(); ++i) {
    if (is_key(parameters_[i].name) && point[i] != absent) add(parameters_[i].name, parameters_[i].value(point[i]));
  }
  for (size_t i = 0; i < derived_.size(); ++i) {
    const double number = values[point.size() + i];
    if (!is_key(derived_[i].name) || is_missing_in(derived_[i].expression, missing)) continue;
    if (!std::isfinite(number)) {
      throw UserError::of("{} = \"{}\" has no value, such as after a division by 0", derived_[i].name,
                          derived_[i].expression.text());
    }
    add(derived_[i].name, derived_[i].is_flag ? Value(is_true(number)) : whole_or_real(number));
  }
  return list;
}

std::vector<std::string> Space::texts(const Point& point) const {
  std::vector<std::string> texts;
  for (size_t i = 0; i < point.size(); ++i) {
    texts.push_back(point[i] == absent ? "" : plain_text(parameters_[i].value(point[i])));
  }
  return texts;
}

std::vector<std::string> Space::shown(const Point& point) const {
  std::vector<std::string> list = texts(point);
  for (size_t i = 0; i < point.size(); ++i) {
    if (parameters_[i].type == Type::real && point[i] != absent) list[i] = fmt::format("{:.4g}", point[i]);
  }
  return list;
}

std::optional<Point> Space::point_of(const std::vector<std::string>& texts) const {
  Point point(parameters_.size(), absent);
  for (const size_t i : existence_.order()) {
    const Parameter& parameter = parameters_[i];
    const std::string& text = texts[i];
    if (!existence_.exists(i, point)) {
      if (!is_missing(text)) return std::nullopt;
      continue;
    }
    if (parameter.has_values()) {
      const auto found = std::ranges::find(parameter.values, text, plain_text);
      if (found == parameter.values.end()) return std::nullopt;
      point[i] = static_cast<double>(found - parameter.values.begin());
      continue;
    }
    const std::optional<double> number = parse_number(text);
    const bool is_whole = parameter.type == Type::integer;
    if (!number || *number < parameter.low || *number > parameter.high ||
        (is_whole && *number != std::floor(*number))) {
      return std::nullopt;
    }
    point[i] = *number;
  }
  return point;
}

Point Space::scaled(const Point& point) const {
  Point scaled;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Parameter& parameter = parameters_[i];
    if (point[i] == absent) {
      scaled.push_back(parameter.type == Type::categorical ? -1 : 0.5);
      continue;
    }
    double low = parameter.low, high = parameter.high, here = point[i];
    if (parameter.has_values()) {
      low = 0;
      high = static_cast<double>(parameter.values.size() - 1);
    } else if (parameter.log) {
      low = std::log(low);
      high = std::log(high);
      here = std::log(here);
    }
    scaled.push_back(high > low ? (here - low) / (high - low) : 0);
  }
  return scaled;
}

}  // namespace terrace::search
