// Gives failed and pending trials provisional values, and grows the forest.
#include "terrace/search/proposals/forest_surrogate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

namespace terrace::search {
namespace {

// The worst objective of all trials; 0 while every trial failed.
double worst_of(const std::vector<Objective>& objectives) {
  double worst = std::numeric_limits<double>::infinity();
  for (const Objective& objective : objectives) {
    if (objective) worst = std::min(worst, *objective);
  }
  return std::isfinite(worst) ? worst : 0;
}

}  // namespace

void ForestSurrogate::learn(const Point& point, Objective objective, const std::string& /*failure*/) {
  const Point scaled = space_->scaled(point);
  points_.insert(points_.end(), scaled.begin(), scaled.end());
  objectives_.push_back(objective);
}

double ForestSurrogate::kappa(size_t trials) {
  constexpr double first = 1.96, last = 0.01;
  constexpr size_t period = 20;
  return first * std::pow(last / first, static_cast<double>(trials % period) / (period - 1));
}

void ForestSurrogate::prepare(const std::vector<Point>& pending) {
  const size_t trials = objectives_.size() + pending.size();
  const PhiloxKey key = stream_key(seed_, "trees " + std::to_string(trials));
  kappa_ = kappa(trials);
  const double worst = worst_of(objectives_);
  std::vector<double> values;
  for (const Objective& objective : objectives_) values.push_back(objective.value_or(worst));
  forest_.fit(points_, values, key);
  if (pending.empty()) return;
  // A sample with the expected value: the trees agree there, so other points promise more.
  std::vector<double> points = points_;
  for (const Point& point : pending) {
    const Point scaled = space_->scaled(point);
    points.insert(points.end(), scaled.begin(), scaled.end());
    values.push_back(forest_.predict(scaled).mean);
  }
  forest_.fit(points, values, key);
}

double ForestSurrogate::promise(const Point& point) const {
  const Forest::Prediction prediction = forest_.predict(space_->scaled(point));
  return prediction.mean + kappa_ * prediction.spread;
}

}  // namespace terrace::search
