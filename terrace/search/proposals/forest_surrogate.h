// A forest of extremely randomised trees of the finished trials, as DeepHyper searches by: Balaprakash and others,
// "DeepHyper: asynchronous hyperparameter search for deep neural networks", HiPC 2018.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "terrace/search/proposals/forest.h"
#include "terrace/search/proposals/surrogate.h"

namespace terrace::search {

class ForestSurrogate : public Surrogate {
 public:
  // The space outlives the surrogate.
  ForestSurrogate(const Space& space, uint64_t seed) : space_(&space), seed_(seed), forest_(space.categorical()) {}

  // All kinds of failure are one: the worst objective seen.
  void learn(const Point& point, Objective objective, const std::string& failure) override;
  // Every number of trials, finished and pending, has other random trees and its own kappa.
  void prepare(const std::vector<Point>& pending) override;

  // The mean of the trees plus kappa times their spread.
  double promise(const Point& point) const override;

  // The weight of the spread with so many trials: it decays from 1.96 to 0.01 and starts again, so that the search
  // looks by turns where it knows little and where it expects the best.
  static double kappa(size_t trials);

 private:
  const Space* space_;
  uint64_t seed_;
  std::vector<double> points_;         // [trials, coordinates]
  std::vector<Objective> objectives_;  // by trial
  Forest forest_;
  double kappa_ = 0;
};

}  // namespace terrace::search
