// Predicts from finished trials what other points promise. docs/search.md has the arithmetic.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "terrace/search/study/space.h"

namespace terrace::search {

// A trial's objective: the larger the better; none if the trial failed.
using Objective = std::optional<double>;

struct LearnedTrial {
  Point scaled;  // Space::scaled of its point
  Objective objective;
  std::string failure;  // the kind
};

class Surrogate {
 public:
  virtual ~Surrogate() = default;

  // `failure` is the kind of failure of a trial that failed, by a word such as "oom". Kinds are learned apart from one
  // another: which layouts divide the devices follows from other parameters than how much memory they need.
  virtual void learn(const Point& point, Objective objective, const std::string& failure) = 0;
  // Called before promises are asked for: takes in the trials learned since the last time. Pending trials have the
  // outcome that is expected of them, so that other points promise more.
  virtual void prepare(const std::vector<Point>& pending) = 0;

  // The promise of a trial at the point; only the order of the promises of one preparation has a meaning.
  virtual double promise(const Point& point) const = 0;
  // A bound that is no less than the promise, with less work where there is a way.
  virtual double promise_bound(const Point& point) const { return promise(point); }
};

}  // namespace terrace::search
