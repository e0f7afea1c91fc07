// Proposes the points of a search, by what earlier trials gave. docs/search.md has the arithmetic.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "terrace/search/proposals/gaussian_surrogate.h"
#include "terrace/search/proposals/learned_trial.h"
#include "terrace/search/study/space.h"
#include "terrace/search/study/study.h"

namespace terrace::search {

struct OptimizerOptions {
  Method method = Method::bayesian;
  uint64_t seed = 1;
  size_t candidates = 1000;  // the number of random points among which the most promising is looked for
  size_t best_of = 10;       // the number of best trials whose neighbours are candidates too
  size_t climbs = 3;         // the number of candidates from which the search goes on step by step
};

class Optimizer {
 public:
  // The space outlives the optimizer.
  Optimizer(const Space& space, const OptimizerOptions& options);

  // The next point, which no earlier trial had and which holds all constraints. It is pending until tell(). None if
  // there is no other point, or if 100,000 random ones in a row break a constraint or were tried.
  std::optional<Point> ask();
  // A point that another worker tries is pending until tell().
  void expect(const Point& point) { known_.emplace(point, false); }
  // Takes the objective of a pending point, or of a point of an earlier search.
  void tell(const Point& point, Objective objective, const std::string& failure = "");
  // Takes the objectives of a search with several goals, each the larger the better; empty if the trial failed. All
  // trials have as many objectives. `failure` is the kind of failure, such as "oom".
  void tell(const Point& point, const std::vector<double>& objectives, const std::string& failure = "");

 private:
  struct Finished {
    Point point;
    Objective objective;                  // of several goals: their weighed value for this proposal
    std::vector<double> objectives = {};  // the values of all goals if there are several
    std::string failure = {};
  };
  struct Candidate {
    Point point;
    double promise = 0;
  };

  std::optional<Point> ask_in_order();
  std::optional<Point> ask_random();
  std::optional<Point> ask_promising();
  std::unique_ptr<GaussianSurrogate> make_surrogate() const;
  void weigh_objectives();
  std::optional<Point> most_promising() const;
  std::optional<Point> most_promising_neighbour() const;
  std::vector<Point> open_neighbours(const Point& point, std::string_view purpose, size_t number) const;
  std::vector<const Finished*> best_trials() const;
  std::vector<Point> candidates() const;
  void climb(Candidate& from, size_t number) const;
  bool is_open(const Point& point) const { return !known_.contains(point) && space_.holds_constraints(point); }

  const Space& space_;
  OptimizerOptions options_;
  std::vector<Finished> finished_;
  std::map<Point, bool> known_;  // whether it is finished; otherwise pending
  uint64_t next_in_order_ = 0;   // of the exhaustive search
  uint64_t next_random_ = 0;
  std::unique_ptr<GaussianSurrogate> surrogate_;  // none if points are proposed in order or at random
  size_t proposals_ = 0;                          // by the surrogate
};

}  // namespace terrace::search
