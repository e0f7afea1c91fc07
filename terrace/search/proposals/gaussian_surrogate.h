// Gaussian processes of the finished trials: one of the objective where trials did not fail, and one of each kind of
// failure.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "terrace/search/proposals/gaussian_process.h"
#include "terrace/search/proposals/learned_trial.h"
#include "terrace/search/proposals/logistic_trend.h"

namespace terrace::search {

class GaussianSurrogate {
 public:
  // The space outlives the surrogate.
  explicit GaussianSurrogate(const Space& space);

  // `failure` is the kind of failure of a trial that failed, by a word such as "oom". Kinds are learned apart from one
  // another: which layouts divide the devices follows from other parameters than how much memory they need.
  void learn(const Point& point, Objective objective, const std::string& failure = "");
  // Called before promises are asked for: takes in the trials learned since the last time. Pending trials have the
  // outcome that is expected of them, so that other points promise more.
  void prepare(const std::vector<Point>& pending);

  // The promise of a trial at the point; only the order of the promises of one preparation has a meaning. It is the
  // expected improvement of the best objective times the probability that the trial does not fail; the latter alone
  // while every trial failed.
  double promise(const Point& point) const;
  // A bound that is no less than the promise, with less work.
  double promise_bound(const Point& point) const;

 private:
  // The model of one kind of failure, from the trials that failed so and from those that did not fail.
  struct Failures {
    LogisticTrend trend;
    GaussianProcess residuals;          // a process of the outcomes less their trend
    std::vector<double> outcomes = {};  // 1, or -1 if the trial failed

    void add(std::span<const double> scaled, double outcome);
    // The prediction of the outcome, given the prediction of its residual.
    GaussianProcess::Prediction outcome(const Point& scaled, const GaussianProcess::Prediction& residual) const;
  };

  void forget_some();
  void add(const LearnedTrial& trial);
  void set_values();
  double improvement(const GaussianProcess::Prediction& prediction) const;

  const Space* space_;
  std::vector<LearnedTrial> trials_;          // the oldest first
  std::vector<double> objectives_;            // the objectives of the trials that did not fail
  GaussianProcess objective_process_;         // a process of objectives with mean 0 and variance 1
  std::map<std::string, Failures> failures_;  // by kind
  double best_objective_ = 0;                 // with mean 0 and variance 1
  size_t learned_since_fit_ = 0;
};

}  // namespace terrace::search
