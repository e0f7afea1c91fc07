// Chooses among candidates by a forest that is fitted to all finished trials.
#include "terrace/search/optimizer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "terrace/base/error.h"

namespace terrace::search {

Optimizer::Optimizer(const Space& space, const OptimizerOptions& options) : space_(space), options_(options) {
  if (options.method == Method::exhaustive && !space.grid_size()) {
    throw UserError(
        "method = \"exhaustive\" needs a finite space, but a parameter is real; give it values, or use \"bayesian\"");
  }
}

std::optional<Point> Optimizer::ask() {
  std::optional<Point> point;
  // 2 N + 1 random points come before the first forest, as in DeepHyper.
  const bool has_design = known_.size() > 2 * space_.parameters().size() && !finished_.empty();
  if (options_.method == Method::exhaustive) {
    point = ask_in_order();
  } else if (options_.method == Method::random || !has_design) {
    point = ask_random();
  } else {
    point = ask_forest();
  }
  if (point) known_.emplace(*point, false);
  return point;
}

void Optimizer::tell(const Point& point, Objective objective) {
  const auto [known, is_unknown] = known_.emplace(point, true);
  if (!is_unknown && known->second) return;
  known->second = true;
  finished_.push_back({point, space_.encode(point), objective});
}

std::optional<Point> Optimizer::ask_in_order() {
  while (next_in_order_ < *space_.grid_size()) {
    Point point = space_.grid_point(next_in_order_++);
    if (is_open(point)) return point;
  }
  return std::nullopt;
}

std::optional<Point> Optimizer::ask_random() {
  // Small spaces are drawn to their last point; in others there may be none left that can be found.
  constexpr uint64_t most_failures = 100'000;
  const PhiloxKey key = stream_key(options_.seed, "random points");
  for (uint64_t failures = 0; failures < most_failures; ++failures) {
    std::optional<Point> point = space_.draw(key, next_random_++);
    if (!point) return std::nullopt;
    if (is_open(*point)) return point;
  }
  return std::nullopt;
}

// The smaller the better. Failed trials get the worst value seen.
std::vector<double> Optimizer::costs() const {
  double worst = -std::numeric_limits<double>::infinity();
  for (const Finished& one : finished_) {
    if (one.objective) worst = std::max(worst, -*one.objective);
  }
  std::vector<double> costs;
  for (const Finished& one : finished_) {
    costs.push_back(one.objective ? -*one.objective : std::isfinite(worst) ? worst : 0);
  }
  return costs;
}

std::vector<Point> Optimizer::candidates() const {
  const PhiloxKey key = stream_key(options_.seed, "candidates " + std::to_string(proposals_));
  const bool whole = space_.grid_size() && *space_.grid_size() <= options_.whole_grid;
  const uint64_t count = whole ? *space_.grid_size() : options_.candidates;
  std::vector<Point> list;
  // In a random order, since the first of several equally good candidates is taken.
  for (uint64_t number = 0; number < count; ++number) {
    std::optional<Point> point = whole ? space_.grid_point(permute(key, count, number)) : space_.draw(key, number);
    if (point && is_open(*point)) list.push_back(std::move(*point));
  }
  if (whole) return list;
  std::vector<const Finished*> best;
  for (const Finished& one : finished_) {
    if (one.objective) best.push_back(&one);
  }
  const size_t parents = std::min(options_.best_of, best.size());
  std::ranges::partial_sort(best, best.begin() + static_cast<int64_t>(parents), std::greater<>(),
                            [](const Finished* one) { return *one->objective; });
  for (size_t i = 0; i < parents; ++i) {
    const PhiloxKey steps = stream_key(options_.seed, "steps " + std::to_string(proposals_) + " " + std::to_string(i));
    for (Point& point : space_.neighbours(best[i]->point, steps)) {
      if (is_open(point)) list.push_back(std::move(point));
    }
  }
  return list;
}

double Optimizer::kappa(size_t proposal) const {
  if (options_.kappa_period < 2) return options_.kappa;
  const auto place = static_cast<double>(proposal % options_.kappa_period);
  return options_.kappa *
         std::pow(options_.last_kappa / options_.kappa, place / static_cast<double>(options_.kappa_period - 1));
}

std::optional<Point> Optimizer::ask_forest() {
  const std::vector<Point> open = candidates();
  if (open.empty()) return ask_random();
  std::vector<std::vector<double>> samples;
  for (const Finished& one : finished_) samples.push_back(one.features);
  std::vector<double> values = costs();
  const uint64_t seed = options_.seed + proposals_;
  Forest forest(samples, values, options_.trees, seed);
  // A pending trial has its predicted value for now: the next proposal explores elsewhere, since the forest's spread is
  // small where it has a sample.
  if (known_.size() > finished_.size()) {
    for (const auto& [point, is_finished] : known_) {
      if (is_finished) continue;
      samples.push_back(space_.encode(point));
      values.push_back(forest.predict(samples.back()).mean);
    }
    forest = Forest(samples, values, options_.trees, seed);
  }
  const double weight = kappa(proposals_++);
  const Point* best = nullptr;
  double least = 0;
  for (const Point& point : open) {
    const Forest::Prediction prediction = forest.predict(space_.encode(point));
    const double bound = prediction.mean - weight * prediction.spread;
    if (best == nullptr || bound < least) {
      best = &point;
      least = bound;
    }
  }
  return *best;
}

}  // namespace terrace::search
