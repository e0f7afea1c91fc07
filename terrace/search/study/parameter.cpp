// Converts between the values of a parameter and coordinates of points.
#include "terrace/search/study/parameter.h"

#include <algorithm>

namespace terrace::search {

Value Parameter::value(double coordinate) const {
  if (has_values()) return values[static_cast<size_t>(coordinate)];
  if (type == Type::integer) return static_cast<int64_t>(coordinate);
  return coordinate;
}

std::optional<double> Parameter::coordinate(const Value& value) const {
  if (has_values()) {
    const auto found = std::ranges::find(values, value);
    return found == values.end() ? std::nullopt : std::optional(static_cast<double>(found - values.begin()));
  }
  const auto* whole = std::get_if<int64_t>(&value);
  const bool is_kind =
      type == Type::integer ? whole != nullptr : whole != nullptr || std::holds_alternative<double>(value);
  const double number = is_kind ? number_of(value) : absent;
  return low <= number && number <= high ? std::optional(number) : std::nullopt;
}

std::optional<uint64_t> Parameter::count() const {
  if (has_values()) return values.size();
  if (type == Type::integer) return static_cast<uint64_t>(high - low) + 1;
  return low == high ? std::optional<uint64_t>(1) : std::nullopt;
}

}  // namespace terrace::search
