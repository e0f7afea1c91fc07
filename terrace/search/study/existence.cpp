// Finds the coordinates that conditions name, and orders parameters by their conditions.
#include "terrace/search/study/existence.h"

#include <algorithm>

#include "terrace/base/error.h"

namespace terrace::search {

Existence::Existence(const std::vector<Parameter>& parameters) {
  for (const Parameter& parameter : parameters) {
    std::vector<Named>& conditions = conditions_.emplace_back();
    for (const Condition& condition : parameter.when) {
      const auto named = std::ranges::find(parameters, condition.parameter, &Parameter::name);
      TERRACE_CHECK(named != parameters.end(), "no parameter has the name {}", condition.parameter);
      Named& one = conditions.emplace_back();
      one.parameter = static_cast<size_t>(named - parameters.begin());
      for (const Value& value : condition.values) {
        const std::optional<double> coordinate = named->coordinate(value);
        TERRACE_CHECK(coordinate, "{} is no value of {}", toml_text(value), named->name);
        one.coordinates.push_back(*coordinate);
      }
    }
    is_conditional_ = is_conditional_ || !conditions.empty();
  }
  std::vector<bool> is_ordered(parameters.size());
  while (order_.size() < parameters.size()) {
    const size_t before = order_.size();
    for (size_t i = 0; i < parameters.size(); ++i) {
      const auto is_known = [&](const Named& one) { return is_ordered[one.parameter]; };
      if (is_ordered[i] || !std::ranges::all_of(conditions_[i], is_known)) continue;
      is_ordered[i] = true;
      order_.push_back(i);
    }
    TERRACE_CHECK(order_.size() > before, "a parameter exists only where it exists itself");
  }
}

std::vector<size_t> Existence::named_by(size_t parameter) const {
  std::vector<size_t> list;
  for (const Named& one : conditions_[parameter]) list.push_back(one.parameter);
  return list;
}

bool Existence::exists(size_t parameter, const Point& point) const {
  return std::ranges::all_of(conditions_[parameter], [&](const Named& one) {
    return std::ranges::find(one.coordinates, point[one.parameter]) != one.coordinates.end();
  });
}

Point Existence::without_absent(Point point) const {
  if (!is_conditional_) return point;
  for (const size_t i : order_) {
    if (!exists(i, point)) point[i] = absent;
  }
  return point;
}

}  // namespace terrace::search
