// Corrects the predictions by a Gaussian process of their errors.
#include "terrace/search/proposals/predicted_proposals.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <future>
#include <iterator>
#include <numbers>
#include <set>
#include <thread>

namespace terrace::search {
namespace {

constexpr uint64_t most_candidates = 50'000, most_random = 20'000;
constexpr size_t most_looked_at = 2000;  // of the points that were not tried, the best predictions
constexpr size_t fewest_fitted = 5;      // trials from which the process learns how far their errors reach
// A point is taken for as good as it may be: by so many standard deviations of its correction.
constexpr double deviations = 1;

std::vector<Point> random_points(const Space& space, uint64_t seed) {
  std::vector<Point> points;
  const PhiloxKey key = stream_key(seed, "predicted points");
  // A random point may come again.
  std::set<Point> known;
  for (uint64_t i = 0; i < most_random; ++i) {
    const std::optional<Point> point = space.draw(key, i);
    if (point && space.holds_constraints(*point) && known.insert(*point).second) points.push_back(*point);
  }
  return points;
}

}  // namespace

PredictedPoints predict_points(const Space& space, uint64_t seed,
                               const std::function<std::optional<double>(const Point&)>& predict,
                               const std::function<void(uint64_t, uint64_t)>& progress) {
  const std::optional<std::vector<uint64_t>> all = space.held_points(most_candidates);
  std::vector<Point> drawn = all ? std::vector<Point>() : random_points(space, seed);
  if (all) std::ranges::transform(*all, std::back_inserter(drawn), [&](uint64_t one) { return space.grid_point(one); });
  std::vector<std::optional<PredictedPoint>> found(drawn.size());
  std::atomic<uint64_t> next = 0, done = 0;
  const auto work = [&] {
    for (uint64_t i = next++; i < drawn.size(); i = next++) {
      if (const std::optional<double> figure = predict(drawn[i])) found[i] = PredictedPoint{drawn[i], *figure};
      ++done;
    }
  };
  std::vector<std::future<void>> threads;
  for (unsigned i = 0; i < std::max(1U, std::thread::hardware_concurrency()); ++i) {
    threads.push_back(std::async(std::launch::async, work));
  }
  for (std::future<void>& thread : threads) {
    while (thread.wait_for(std::chrono::milliseconds(100)) != std::future_status::ready) {
      if (progress) progress(done, drawn.size());
    }
    thread.get();
  }
  PredictedPoints result{.predicted = drawn.size(), .has_all = all.has_value()};
  for (auto& one : found) {
    if (one) result.points.push_back(std::move(*one));
  }
  return result;
}

PredictedProposals::PredictedProposals(const Space& space, std::vector<PredictedPoint> points, bool minimizes)
    : space_(space),
      points_(std::move(points)),
      minimizes_(minimizes),
      used_(points_.size()),
      gaussian_(space.categorical()) {
  std::ranges::stable_sort(points_, {}, [this](const PredictedPoint& one) { return cost(one.figure); });
  for (size_t i = 0; i < points_.size(); ++i) places_[points_[i].point] = i;
}

double PredictedProposals::cost(double figure) const { return minimizes_ ? std::log(figure) : -std::log(figure); }

void PredictedProposals::expect(const Point& point) {
  const auto place = places_.find(point);
  if (place != places_.end()) used_[place->second] = true;
}

void PredictedProposals::tell(const Point& point, std::optional<double> figure) {
  const auto place = places_.find(point);
  if (place == places_.end()) return;
  used_[place->second] = true;
  gaussian_.add(space_.scaled(point));
  const bool is_known = figure && *figure > 0;
  errors_.push_back(is_known ? std::optional(cost(*figure) - cost(points_[place->second].figure)) : std::nullopt);
}

std::optional<Point> PredictedProposals::ask() {
  // A trial that failed counts as twice the cost of the worst prediction.
  double worst = 0, mean = 0, squares = 0;
  for (const auto& error : errors_) worst = std::max(worst, error.value_or(0));
  std::vector<double> errors;
  for (const auto& error : errors_) errors.push_back(error.value_or(worst + std::numbers::ln2));
  for (const double error : errors) mean += error / static_cast<double>(errors.size());
  for (const double error : errors) squares += (error - mean) * (error - mean);
  const double deviation = errors.empty() ? 0 : std::sqrt(squares / static_cast<double>(errors.size()));
  if (deviation > 0) {
    for (double& error : errors) error = (error - mean) / deviation;
    gaussian_.set_values(errors);
    if (errors.size() >= fewest_fitted) {
      gaussian_.fit();
      gaussian_.set_values(errors);
    }
  }
  std::optional<size_t> best;
  double least = 0;
  size_t looked_at = 0;
  for (size_t i = 0; i < points_.size() && looked_at < most_looked_at; ++i) {
    if (used_[i]) continue;
    ++looked_at;
    double bound = cost(points_[i].figure) + mean;
    if (deviation > 0) {
      const GaussianProcess::Prediction error = gaussian_.predict(space_.scaled(points_[i].point));
      bound += deviation * (error.mean - deviations * std::sqrt(std::max(0.0, error.variance)));
    }
    if (best && bound >= least) continue;
    best = i;
    least = bound;
  }
  if (!best) return std::nullopt;
  used_[*best] = true;
  return points_[*best].point;
}

}  // namespace terrace::search
