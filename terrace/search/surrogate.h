// What finished trials tell about other points: how good their objective is, and whether they fail. docs/search.md has
// the arithmetic.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "terrace/search/gaussian_process.h"
#include "terrace/search/space.h"

namespace terrace::search {

// A trial's objective: the larger the better; none if the trial failed.
using Objective = std::optional<double>;

class Surrogate {
 public:
  // The space outlives the surrogate.
  explicit Surrogate(const Space& space);

  void learn(const Point& point, Objective objective);
  // Before promises are asked for: follows the trials learned since the last time. Pending trials have the outcome that
  // is expected of them, so that other points promise more.
  void prepare(const std::vector<Point>& pending);

  // What a trial at the point promises: the expected improvement of the best objective times the probability that the
  // trial does not fail; the latter alone while every trial failed.
  double promise(const Point& point) const;
  // No less than the promise, with less work.
  double promise_bound(const Point& point) const;

 private:
  struct Learned {
    Point scaled;
    Objective objective;
  };

  void forget_some();
  void add(const Learned& trial);
  void set_values();
  double improvement(const GaussianProcess::Prediction& prediction) const;
  double success(double mean, double variance) const;

  const Space* space_;
  std::vector<Learned> trials_;        // the oldest first
  std::vector<double> objectives_;     // of those that did not fail
  std::vector<double> outcomes_;       // of all: 1, or -1 if the trial failed
  GaussianProcess objective_process_;  // of objectives with mean 0 and variance 1
  GaussianProcess outcome_process_;    // of outcomes less their mean
  double best_objective_ = 0;          // with mean 0 and variance 1
  double mean_outcome_ = 0;
  size_t learned_since_fit_ = 0;
};

}  // namespace terrace::search
