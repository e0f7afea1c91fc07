// A parameter of a search: its values, and the conditions under which it exists.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "terrace/search/study/value.h"

namespace terrace::search {

// Holds where another parameter exists and has one of these values.
struct Condition {
  std::string parameter;
  std::vector<Value> values = {};
};

struct Parameter {
  enum class Type { integer, real, ordered, categorical };

  std::string name;  // a key such as "layout.tensor", or a name that only expressions use
  Type type = Type::integer;
  double low = 0, high = 0;          // bounds, both included, of integer and real
  bool log = false;                  // integer and real: all factors are equally likely, not all differences
  std::vector<Value> values = {};    // of ordered and categorical
  std::vector<Condition> when = {};  // the parameter exists only where all of them hold

  bool has_values() const { return type == Type::ordered || type == Type::categorical; }
  // The value at a coordinate of a point, and the coordinate of a value; none if the parameter does not have the value.
  Value value(double coordinate) const;
  std::optional<double> coordinate(const Value& value) const;
  // The number of its values, and the coordinate of the first; none if there are infinitely many.
  std::optional<uint64_t> count() const;
  double first() const { return has_values() ? 0 : low; }
};

// The coordinates of a point, by parameter: its number, or the index of its value if it has a list of values, or
// `absent`.
using Point = std::vector<double>;

// The coordinate of a parameter that does not exist at a point. So points that differ only in what does not exist are
// equal.
inline constexpr double absent = -std::numeric_limits<double>::infinity();

}  // namespace terrace::search
