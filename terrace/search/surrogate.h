// What finished trials tell about other points: how good their objective is, and whether they fail. docs/search.md has
// the arithmetic.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "terrace/search/gaussian_process.h"
#include "terrace/search/logistic_trend.h"
#include "terrace/search/space.h"

namespace terrace::search {

// A trial's objective: the larger the better; none if the trial failed.
using Objective = std::optional<double>;

class Surrogate {
 public:
  // The space outlives the surrogate.
  explicit Surrogate(const Space& space);

  // `failure` is the kind of failure of a trial that failed, by a word such as "oom". Kinds are learned apart from one
  // another: which layouts divide the devices follows from other parameters than how much memory they need.
  void learn(const Point& point, Objective objective, const std::string& failure = "");
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
    std::string failure;
  };
  // Of one kind of failure, from the trials that failed so and from those that did not fail.
  struct Failures {
    LogisticTrend trend;
    GaussianProcess residuals;          // of the outcomes less their trend
    std::vector<double> outcomes = {};  // 1, or -1 if the trial failed

    void add(std::span<const double> scaled, double outcome);
    // Of the outcome, by what the residual is predicted to be.
    GaussianProcess::Prediction outcome(const Point& scaled, const GaussianProcess::Prediction& residual) const;
  };

  void forget_some();
  void add(const Learned& trial);
  void set_values();
  double improvement(const GaussianProcess::Prediction& prediction) const;

  const Space* space_;
  std::vector<Learned> trials_;               // the oldest first
  std::vector<double> objectives_;            // of those that did not fail
  GaussianProcess objective_process_;         // of objectives with mean 0 and variance 1
  std::map<std::string, Failures> failures_;  // by kind
  double best_objective_ = 0;                 // with mean 0 and variance 1
  size_t learned_since_fit_ = 0;
};

}  // namespace terrace::search
