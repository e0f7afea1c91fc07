// Proposes the points of a search, by what earlier trials gave. docs/search.md has the arithmetic.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "terrace/search/forest.h"
#include "terrace/search/space.h"
#include "terrace/search/study.h"

namespace terrace::search {

struct OptimizerOptions {
  Method method = Method::bayesian;
  uint64_t seed = 1;
  size_t trees = 10;
  size_t candidates = 2000;  // random points among which the forest chooses
  size_t whole_grid = 4096;  // a space with at most so many points: all points are candidates
  size_t best_of = 10;       // whose neighbours are candidates too
  double kappa = 1.96, last_kappa = 0.01;
  size_t kappa_period = 10;  // proposals from one to the other
};

// A trial's objective: the larger the better; none if the trial failed.
using Objective = std::optional<double>;

class Optimizer {
 public:
  // The space outlives the optimizer.
  Optimizer(const Space& space, const OptimizerOptions& options);

  // The next point, which no earlier trial had and which holds all constraints. It is pending until tell(). None if
  // there is no other point, or if 100,000 random ones in a row break a constraint or were tried.
  std::optional<Point> ask();
  // Of a pending point, or of one of an earlier search.
  void tell(const Point& point, Objective objective);

  // The weight of the spread in a proposal by the forest, from the number of those before it.
  double kappa(size_t proposal) const;

 private:
  struct Finished {
    Point point;
    std::vector<double> features;
    Objective objective;
  };

  std::optional<Point> ask_in_order();
  std::optional<Point> ask_random();
  std::optional<Point> ask_forest();
  std::vector<Point> candidates() const;
  std::vector<double> costs() const;
  bool is_open(const Point& point) const { return !known_.contains(point) && space_.holds_constraints(point); }

  const Space& space_;
  OptimizerOptions options_;
  std::vector<Finished> finished_;
  std::map<Point, bool> known_;  // whether it is finished; otherwise pending
  uint64_t next_in_order_ = 0;   // of the exhaustive search
  uint64_t next_random_ = 0;
  size_t proposals_ = 0;  // by the forest
};

}  // namespace terrace::search
