// Determines which parameters of a space exist at a point, by the conditions among them.
#pragma once

#include <cstddef>
#include <vector>

#include "terrace/search/study/parameter.h"

namespace terrace::search {

class Existence {
 public:
  // Each condition names another parameter and values of it, and no parameter depends on itself.
  explicit Existence(const std::vector<Parameter>& parameters);

  // Whether a parameter has a condition.
  bool is_conditional() const { return is_conditional_; }
  // All parameters, each after those that its conditions name.
  const std::vector<size_t>& order() const { return order_; }
  // The parameters that the conditions of this one name.
  std::vector<size_t> named_by(size_t parameter) const;
  // Whether the parameter exists, by the coordinates of those that its conditions name.
  bool exists(size_t parameter, const Point& point) const;
  // The point with `absent` where a parameter does not exist.
  Point without_absent(Point point) const;

 private:
  struct Named {
    size_t parameter = 0;
    std::vector<double> coordinates;
  };

  std::vector<std::vector<Named>> conditions_;  // by parameter
  std::vector<size_t> order_;
  bool is_conditional_ = false;
};

}  // namespace terrace::search
