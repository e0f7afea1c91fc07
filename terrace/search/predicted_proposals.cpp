// Grows a forest on the errors of the predictions.
#include "terrace/search/predicted_proposals.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <future>
#include <numbers>
#include <thread>

#include "terrace/search/forest.h"

namespace terrace::search {
namespace {

constexpr uint64_t most_points = 50'000, most_random = 20'000;
constexpr size_t trees = 20;
// How far a trial is looked for whose correction is not known yet: spreads of the forest.
constexpr double spreads = 1;

}  // namespace

std::vector<PredictedPoint> predict_points(const Space& space, uint64_t seed,
                                           const std::function<std::optional<double>(const Point&)>& predict,
                                           const std::function<void(uint64_t, uint64_t)>& progress) {
  const bool whole = space.grid_size() && *space.grid_size() <= most_points;
  const uint64_t count = whole ? *space.grid_size() : most_random;
  const PhiloxKey key = stream_key(seed, "predicted points");
  std::vector<std::optional<PredictedPoint>> found(count);
  std::atomic<uint64_t> next = 0, done = 0;
  const auto work = [&] {
    for (uint64_t i = next++; i < count; i = next++) {
      const std::optional<Point> point = whole ? space.grid_point(i) : space.draw(key, i);
      if (point && space.holds_constraints(*point)) {
        if (const std::optional<double> figure = predict(*point)) found[i] = PredictedPoint{*point, *figure};
      }
      ++done;
    }
  };
  std::vector<std::future<void>> threads;
  for (unsigned i = 0; i < std::max(1U, std::thread::hardware_concurrency()); ++i) {
    threads.push_back(std::async(std::launch::async, work));
  }
  for (std::future<void>& thread : threads) {
    while (thread.wait_for(std::chrono::milliseconds(100)) != std::future_status::ready) {
      if (progress) progress(done, count);
    }
    thread.get();
  }
  std::vector<PredictedPoint> points;
  for (auto& one : found) {
    if (one) points.push_back(std::move(*one));
  }
  return points;
}

PredictedProposals::PredictedProposals(const Space& space, std::vector<PredictedPoint> points, bool minimizes,
                                       uint64_t seed)
    : space_(space), points_(std::move(points)), minimizes_(minimizes), seed_(seed), used_(points_.size()) {
  for (size_t i = 0; i < points_.size(); ++i) places_[points_[i].point] = i;
}

double PredictedProposals::cost(double figure) const { return minimizes_ ? std::log(figure) : -std::log(figure); }

void PredictedProposals::tell(const Point& point, std::optional<double> figure) {
  const auto place = places_.find(point);
  if (place == places_.end()) return;
  used_[place->second] = true;
  features_.push_back(space_.encode(point));
  const bool is_known = figure && *figure > 0;
  errors_.push_back(is_known ? std::optional(cost(*figure) - cost(points_[place->second].figure)) : std::nullopt);
}

std::vector<PredictedProposals::Corrected> PredictedProposals::corrected() const {
  std::vector<Corrected> list;
  std::vector<double> errors;
  double worst = 0;
  for (const auto& error : errors_) worst = std::max(worst, error.value_or(0));
  // A trial that failed counts as twice the cost of the worst prediction.
  for (const auto& error : errors_) errors.push_back(error.value_or(worst + std::numbers::ln2));
  std::optional<Forest> forest;
  if (!errors.empty()) forest.emplace(features_, errors, trees, seed_ + errors.size());
  for (const PredictedPoint& one : points_) {
    Corrected corrected{.mean = cost(one.figure)};
    if (forest) {
      const Forest::Prediction error = forest->predict(space_.encode(one.point));
      corrected = {corrected.mean + error.mean, error.spread};
    }
    list.push_back(corrected);
  }
  return list;
}

std::optional<Point> PredictedProposals::ask() {
  const std::vector<Corrected> all = corrected();
  size_t best = points_.size();
  double least = 0;
  for (size_t i = 0; i < points_.size(); ++i) {
    if (used_[i]) continue;
    const double bound = all[i].mean - spreads * all[i].spread;
    if (best < points_.size() && bound >= least) continue;
    best = i;
    least = bound;
  }
  if (best == points_.size()) return std::nullopt;
  used_[best] = true;
  return points_[best].point;
}

}  // namespace terrace::search
