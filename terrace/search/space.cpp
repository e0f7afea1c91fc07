// Draws, enumerates and scales the points of a space.
#include "terrace/search/space.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "terrace/base/error.h"

namespace terrace::search {
namespace {

using Type = Parameter::Type;

// The number of values; none if it is infinite.
std::optional<uint64_t> count_of(const Parameter& parameter) {
  if (parameter.has_values()) return parameter.values.size();
  if (parameter.type == Type::integer) return static_cast<uint64_t>(parameter.high - parameter.low) + 1;
  return parameter.low == parameter.high ? std::optional<uint64_t>(1) : std::nullopt;
}

std::optional<uint64_t> product_of_counts(const std::vector<Parameter>& parameters) {
  constexpr uint64_t most = uint64_t{1} << 62;
  uint64_t product = 1;
  for (const Parameter& parameter : parameters) {
    const std::optional<uint64_t> count = count_of(parameter);
    if (!count || *count > most / product) return std::nullopt;
    product *= *count;
  }
  return product;
}

double uniform_at(PhiloxKey key, uint64_t number, size_t index) {
  const PhiloxBlock block = philox_at(key, number, index);
  return unit_uniform(block[0], block[1]);
}

}  // namespace

Value Parameter::value(double coordinate) const {
  if (has_values()) return values[static_cast<size_t>(coordinate)];
  if (type == Type::integer) return static_cast<int64_t>(coordinate);
  return coordinate;
}

Space::Space(std::vector<Parameter> parameters, std::vector<Derived> derived, std::vector<Expression> constraints,
             const std::map<std::string, double>& constants)
    : parameters_(std::move(parameters)),
      derived_(std::move(derived)),
      constraints_(std::move(constraints)),
      grid_size_(product_of_counts(parameters_)) {
  draws_once_ = grid_size_ && std::ranges::none_of(parameters_, &Parameter::log);
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

Point Space::grid_point(uint64_t index) const {
  Point point(parameters_.size());
  for (size_t i = parameters_.size(); i-- > 0;) {
    const uint64_t count = *count_of(parameters_[i]);
    const double first = parameters_[i].has_values() ? 0 : parameters_[i].low;
    point[i] = first + static_cast<double>(index % count);
    index /= count;
  }
  return point;
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
  if (draws_once_) {
    if (number >= *grid_size_) return std::nullopt;
    return grid_point(permute(key, *grid_size_, number));
  }
  Point point;
  for (const Parameter& parameter : parameters_) {
    point.push_back(coordinate_at(parameter, uniform_at(key, number, point.size())));
  }
  return point;
}

std::vector<Point> Space::neighbours(const Point& point, PhiloxKey key) const {
  std::vector<Point> list;
  const auto add = [&](size_t index, double coordinate) {
    if (coordinate == point[index]) return;
    list.push_back(point);
    list.back()[index] = coordinate;
  };
  for (size_t i = 0; i < point.size(); ++i) {
    const Parameter& parameter = parameters_[i];
    const double here = point[i];
    if (parameter.has_values()) {
      for (size_t value = 0; value < parameter.values.size(); ++value) {
        const auto coordinate = static_cast<double>(value);
        if (parameter.type == Type::categorical || std::abs(coordinate - here) == 1) add(i, coordinate);
      }
      continue;
    }
    // Steps of all sizes from the whole range down to a thousandth of it.
    for (uint64_t number = 0; number < 4; ++number) {
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
  for (size_t i = 0; i < point.size(); ++i) numbers[i] = number_of(parameters_[i].value(point[i]));
  for (size_t i = 0; i < derived_.size(); ++i) {
    numbers[point.size() + i] = derived_[i].expression.evaluate(numbers);
  }
  return numbers;
}

bool Space::holds_constraints(const Point& point) const {
  if (constraints_.empty()) return true;
  const std::vector<double> values = numbers(point);
  return std::ranges::all_of(constraints_, [&](const Expression& one) { return is_true(one.evaluate(values)); });
}

double Space::number(const Point& point, const std::string& name) const {
  const auto parameter = std::ranges::find(parameters_, name, &Parameter::name);
  if (parameter != parameters_.end()) {
    const auto index = static_cast<size_t>(parameter - parameters_.begin());
    return number_of(parameter->value(point[index]));
  }
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
  if (parameter != parameters_.end()) {
    return plain_text(parameter->value(point[static_cast<size_t>(parameter - parameters_.begin())]));
  }
  const double value = number(point, name);
  if (!std::isfinite(value)) throw UserError::of("{} has no value, such as after a division by 0", name);
  return plain_text(whole_or_real(value));
}

std::vector<std::string> Space::settings(const Point& point) const {
  const std::vector<double> values = numbers(point);
  std::vector<std::string> list;
  const auto add = [&](const std::string& name, const Value& value) { list.push_back(name + "=" + toml_text(value)); };
  for (size_t i = 0; i < point.size(); ++i) {
    if (is_key(parameters_[i].name)) add(parameters_[i].name, parameters_[i].value(point[i]));
  }
  for (size_t i = 0; i < derived_.size(); ++i) {
    const double number = values[point.size() + i];
    if (!is_key(derived_[i].name)) continue;
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
  for (size_t i = 0; i < point.size(); ++i) texts.push_back(plain_text(parameters_[i].value(point[i])));
  return texts;
}

std::vector<std::string> Space::shown(const Point& point) const {
  std::vector<std::string> list = texts(point);
  for (size_t i = 0; i < point.size(); ++i) {
    if (parameters_[i].type == Type::real) list[i] = fmt::format("{:.4g}", point[i]);
  }
  return list;
}

std::optional<Point> Space::point_of(const std::vector<std::string>& texts) const {
  Point point;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Parameter& parameter = parameters_[i];
    const std::string& text = texts[i];
    if (parameter.has_values()) {
      const auto found = std::ranges::find(parameter.values, text, plain_text);
      if (found == parameter.values.end()) return std::nullopt;
      point.push_back(static_cast<double>(found - parameter.values.begin()));
      continue;
    }
    const std::optional<double> number = parse_number(text);
    const bool is_whole = parameter.type == Type::integer;
    if (!number || *number < parameter.low || *number > parameter.high ||
        (is_whole && *number != std::floor(*number))) {
      return std::nullopt;
    }
    point.push_back(*number);
  }
  return point;
}

Point Space::scaled(const Point& point) const {
  Point scaled;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Parameter& parameter = parameters_[i];
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
