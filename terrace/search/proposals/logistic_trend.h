// Logistic regression of outcomes on coordinates: which way failing grows, also beyond the trials. Cox, "The regression
// analysis of binary sequences", 1958.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace terrace::search {

class LogisticTrend {
 public:
  // Coordinates are in [0, 1]; a categorical one has an effect of its own for each value.
  explicit LogisticTrend(std::vector<bool> is_categorical) : is_categorical_(std::move(is_categorical)) {}

  // `points` is [outcomes, coordinates]; there is an outcome, and all are 1 or -1. The effects have the greatest
  // posterior probability for a normal prior, by Newton's method. Outcomes that are all equal have no trend. Work:
  // outcomes * effects^2.
  void fit(std::span<const double> points, std::span<const double> outcomes);
  // The expected outcome, from -1 to 1.
  double expected(std::span<const double> at) const;
  // The largest variance of an outcome with the expectation of expected(); 1 if all outcomes are equal, which tells
  // little of other points.
  double most_variance(std::span<const double> at) const;

 private:
  // Calls visit(effect, value) for all effects that the point has.
  template <typename Visit>
  void for_each_effect(std::span<const double> at, const Visit& visit) const;

  std::vector<bool> is_categorical_;
  std::map<std::pair<size_t, double>, size_t> categories_;  // effects of values of categorical coordinates
  std::vector<double> effects_;                             // first the constant; none if all outcomes are equal
  double only_outcome_ = 0;                                 // the outcome, if all are equal
};

}  // namespace terrace::search
