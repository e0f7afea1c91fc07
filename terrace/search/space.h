// The space of a search: parameters with their values, numbers derived from them, and constraints among them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "terrace/base/random.h"
#include "terrace/search/expression.h"
#include "terrace/search/value.h"

namespace terrace::search {

struct Parameter {
  enum class Type { integer, real, ordered, categorical };

  std::string name;  // a key such as "layout.tensor", or a name that only expressions use
  Type type = Type::integer;
  double low = 0, high = 0;        // bounds, both included, of integer and real
  bool log = false;                // integer and real: all factors are equally likely, not all differences
  std::vector<Value> values = {};  // of ordered and categorical

  bool has_values() const { return type == Type::ordered || type == Type::categorical; }
  // The value at a coordinate of a point.
  Value value(double coordinate) const;
};

// By parameter: its number, or the index of its value if it has a list of values.
using Point = std::vector<double>;

struct Derived {
  std::string name;
  Expression expression;
  bool is_flag = false;  // a key whose value is true or false
};

// A key is a name with a dot; other names are for expressions alone.
inline bool is_key(const std::string& name) { return name.find('.') != std::string::npos; }

class Space {
 public:
  // `derived` is in an order in which each expression names only parameters, constants and what comes before it.
  Space(std::vector<Parameter> parameters, std::vector<Derived> derived, std::vector<Expression> constraints,
        const std::map<std::string, double>& constants);

  const std::vector<Parameter>& parameters() const { return parameters_; }
  const std::vector<Derived>& derived() const { return derived_; }
  const std::vector<Expression>& constraints() const { return constraints_; }

  // By parameter, whether it is categorical.
  std::vector<bool> categorical() const;

  // The number of points before constraints; none if it is infinite or above 2^62.
  std::optional<uint64_t> grid_size() const { return grid_size_; }
  Point grid_point(uint64_t index) const;

  // The points of a random stream, which may break constraints. Those of a finite space without logarithms come once
  // each; there is none from the number grid_size() on.
  std::optional<Point> draw(PhiloxKey key, uint64_t number) const;

  // Points that differ in one coordinate. Integers and reals change by steps of a random size.
  std::vector<Point> neighbours(const Point& point, PhiloxKey key) const;

  // Parameters, derived numbers and constants, in which expressions find their names.
  std::vector<double> numbers(const Point& point) const;
  bool holds_constraints(const Point& point) const;
  // Of a parameter or a derived number; NaN if it has no value, such as after a division by 0.
  double number(const Point& point, const std::string& name) const;
  // Whether it is the name of a parameter or of a derived number; and its value there as a text without quotes.
  bool has(const std::string& name) const;
  std::string text_of(const Point& point, const std::string& name) const;

  // The settings of the point's keys, "layout.tensor=4", as for --set. Throws UserError if a derived key has no value.
  std::vector<std::string> settings(const Point& point) const;
  // The texts of a point in results.csv, by parameter, and the point that they stand for; none if one of them is no
  // value of its parameter.
  std::vector<std::string> texts(const Point& point) const;
  // The same for people, with four digits of reals.
  std::vector<std::string> shown(const Point& point) const;
  std::optional<Point> point_of(const std::vector<std::string>& texts) const;

  // The coordinates in [0, 1], by their logarithm where steps are factors. Those of a categorical have no order.
  Point scaled(const Point& point) const;

 private:
  double coordinate_at(const Parameter& parameter, double share) const;

  std::vector<Parameter> parameters_;
  std::vector<Derived> derived_;
  std::vector<Expression> constraints_;
  std::vector<double> numbers_;  // with the constants, at their places behind parameters and derived numbers
  std::optional<uint64_t> grid_size_;
  bool draws_once_ = false;  // draw() permutes the grid
};

}  // namespace terrace::search
