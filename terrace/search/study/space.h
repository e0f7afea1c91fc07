// The space of a search: parameters with their values, numbers derived from them, and constraints among them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "terrace/base/random.h"
#include "terrace/search/proposals/grid.h"
#include "terrace/search/study/existence.h"
#include "terrace/search/study/expression.h"
#include "terrace/search/study/parameter.h"

namespace terrace::search {

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

  // Whether each parameter is categorical.
  std::vector<bool> categorical() const;

  // Whether some parameter exists only under a condition.
  bool is_conditional() const { return existence_.is_conditional(); }

  // The number of points before constraints; none if it is infinite or above 2^62, or cannot be counted (Grid::size).
  std::optional<uint64_t> grid_size() const { return grid_.size(); }
  Point grid_point(uint64_t index) const { return grid_.point(index); }
  // The indices of the grid's points that hold all constraints; none if the grid cannot be counted or has more than
  // `most_counted` points, or if more than `most` of them hold the constraints.
  static constexpr uint64_t most_counted = 1'000'000;
  std::optional<std::vector<uint64_t>> held_points(uint64_t most) const;

  // The points of a random stream, which may break constraints. Those of a finite space without logarithms come once
  // each; there is none from the number grid_size() on. With conditions the points of such a space come twice: first
  // grid_size() random ones, in which a parameter's values are equally likely where it exists and points may come
  // again, and then each point once.
  std::optional<Point> draw(PhiloxKey key, uint64_t number) const;

  // Points that differ in the coordinate of one parameter that exists, and in those of the parameters whose existence
  // depends on it. Integers and reals change by steps of a random size. Parameters that come to exist have random
  // values, several by turns.
  std::vector<Point> neighbours(const Point& point, PhiloxKey key) const;

  // Parameters, derived numbers and constants, in which expressions find their names. What does not exist is NaN.
  std::vector<double> numbers(const Point& point) const;
  // Whether each constraint holds; a constraint that names what does not exist holds.
  std::vector<bool> held_constraints(const Point& point) const;
  bool holds_constraints(const Point& point) const;
  // The number of a parameter or a derived number; NaN if it has no value, such as after a division by 0, or does not
  // exist.
  double number(const Point& point, const std::string& name) const;
  // Whether `name` is that of a parameter or of a derived number; and the value of the name at the point as a text
  // without quotes, "" if it does not exist.
  bool has(const std::string& name) const;
  std::string text_of(const Point& point, const std::string& name) const;

  // The settings of the point's keys, "layout.tensor=4", as for --set, without those that do not exist. Throws
  // UserError if a derived key has no value.
  std::vector<std::string> settings(const Point& point) const;
  // The texts of a point in results.csv, by parameter, "" where it does not exist, and the point that they stand for;
  // none if one of them is no value of its parameter, or is missing where the parameter exists, or the other way round.
  std::vector<std::string> texts(const Point& point) const;
  // The texts of a point for people, with four digits of reals.
  std::vector<std::string> shown(const Point& point) const;
  std::optional<Point> point_of(const std::vector<std::string>& texts) const;

  // The coordinates in [0, 1], by their logarithm where steps are factors. Those of a categorical have no order. What
  // does not exist has the coordinate 0.5, or -1 if it is categorical.
  Point scaled(const Point& point) const;

 private:
  double coordinate_at(const Parameter& parameter, double share) const;
  Point settled(Point point, PhiloxKey key, uint64_t number) const;
  std::vector<bool> missing_numbers(const Point& point) const;
  bool is_missing_in(const Expression& expression, const std::vector<bool>& missing) const;

  std::vector<Parameter> parameters_;
  Existence existence_;
  Grid grid_;
  std::vector<Derived> derived_;
  std::vector<Expression> constraints_;
  std::vector<double> numbers_;  // with the constants, at their places behind parameters and derived numbers
  bool draws_once_ = false;      // draw() permutes the grid
};

}  // namespace terrace::search
