// Proposes trials by predictions of the same figure, corrected by what the trials so far gave. docs/search.md has the
// arithmetic.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "terrace/search/proposals/gaussian_process.h"
#include "terrace/search/study/space.h"

namespace terrace::search {

// A point and the predicted figure of the goal there, which is above 0.
struct PredictedPoint {
  Point point;
  double figure = 0;
};

struct PredictedPoints {
  std::vector<PredictedPoint> points = {};  // that can run
  size_t predicted = 0;                     // those that cannot run included
  bool has_all = false;                     // no other point of the space holds the constraints
};

// Predicts every point that holds the constraints if these are at most 50,000 (Space::held_points), or those of 20,000
// random points. `predict` is called from several threads and returns no figure for a
// point that cannot run; `progress`, which may be null, is called with the number of points that are done and with all.
PredictedPoints predict_points(const Space& space, uint64_t seed,
                               const std::function<std::optional<double>(const Point&)>& predict,
                               const std::function<void(uint64_t, uint64_t)>& progress);

class PredictedProposals {
 public:
  PredictedProposals(const Space& space, std::vector<PredictedPoint> points, bool minimizes);

  // The point with the best corrected prediction among those that no trial had; none if all had one.
  std::optional<Point> ask();
  // Another worker tries the point.
  void expect(const Point& point);
  // `figure` is the measured one, or none if the trial failed.
  void tell(const Point& point, std::optional<double> figure);

 private:
  double cost(double figure) const;

  const Space& space_;
  std::vector<PredictedPoint> points_;  // the best first
  std::map<Point, size_t> places_;
  bool minimizes_;
  std::vector<bool> used_;
  GaussianProcess gaussian_;  // of the errors of the trials that have ended
  // The error of the prediction as a logarithm, by trial that has ended; none if the trial failed.
  std::vector<std::optional<double>> errors_;
};

}  // namespace terrace::search
