// Looks for the point that promises most by what the finished trials tell.
#include "terrace/search/proposals/optimizer.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <set>
#include <string>

#include "terrace/base/error.h"
#include "terrace/search/proposals/gaussian_surrogate.h"

namespace terrace::search {

Optimizer::Optimizer(const Space& space, const OptimizerOptions& options)
    : space_(space), options_(options), surrogate_(make_surrogate()) {
  if (options.method == Method::exhaustive && !space.grid_size()) {
    throw UserError(
        std::ranges::any_of(space.parameters(), [](const Parameter& one) { return !one.count(); })
            ? "method = \"exhaustive\" needs a finite space, but a parameter is real; give it values, or use "
              "\"bayesian\""
            : "method = \"exhaustive\" needs a space whose points can be counted, but this one has too many; give its "
              "parameters fewer values, or use \"bayesian\"");
  }
}

std::unique_ptr<GaussianSurrogate> Optimizer::make_surrogate() const {
  return options_.method == Method::bayesian ? std::make_unique<GaussianSurrogate>(space_) : nullptr;
}

std::optional<Point> Optimizer::ask() {
  std::optional<Point> point;
  const bool has_design = known_.size() > space_.parameters().size() && !finished_.empty();
  if (options_.method == Method::exhaustive) {
    point = ask_in_order();
  } else if (surrogate_ && has_design) {
    point = ask_promising();
  } else {
    point = ask_random();
  }
  if (point) known_.emplace(*point, false);
  return point;
}

void Optimizer::tell(const Point& point, Objective objective, const std::string& failure) {
  tell(point, objective ? std::vector<double>{*objective} : std::vector<double>(), failure);
}

void Optimizer::tell(const Point& point, const std::vector<double>& objectives, const std::string& failure) {
  const auto [known, is_unknown] = known_.emplace(point, true);
  if (!is_unknown && known->second) return;
  known->second = true;
  finished_.push_back({point, objectives.empty() ? Objective() : Objective(objectives.front()), {}, failure});
  if (objectives.size() > 1) {
    finished_.back().objectives = objectives;  // learned when they are weighed
  } else if (surrogate_) {
    surrogate_->learn(point, finished_.back().objective, failure);
  }
}

// Several objectives become one with weights that are drawn for each proposal, so that proposals come from all of the
// Pareto front: the augmented Chebyshev norm of Knowles, "ParEGO", IEEE Transactions on Evolutionary Computation 10,
// 2006, of objectives that are scaled to [0, 1] between the worst and the best seen.
void Optimizer::weigh_objectives() {
  size_t goals = 0;
  for (const Finished& one : finished_) goals = std::max(goals, one.objectives.size());
  if (goals < 2) return;
  constexpr double share_of_sum = 0.05;
  const double infinity = std::numeric_limits<double>::infinity();
  const PhiloxKey key = stream_key(options_.seed, "weights");
  std::vector<double> weights(goals), low(goals, infinity), high(goals, -infinity);
  double sum = 0;
  for (size_t i = 0; i < goals; ++i) {
    const PhiloxBlock block = philox_at(key, proposals_, i);
    // Exponential numbers over their sum are uniform among all weights with the sum 1.
    weights[i] = -std::log(1 - unit_uniform(block[0], block[1]));
    sum += weights[i];
    for (const Finished& one : finished_) {
      if (one.objectives.empty()) continue;
      low[i] = std::min(low[i], one.objectives[i]);
      high[i] = std::max(high[i], one.objectives[i]);
    }
  }
  surrogate_ = make_surrogate();
  for (Finished& one : finished_) {
    if (!one.objectives.empty()) {
      double least = infinity, all = 0;
      for (size_t i = 0; i < goals; ++i) {
        const double missing = high[i] > low[i] ? (one.objectives[i] - high[i]) / (high[i] - low[i]) : 0;
        least = std::min(least, weights[i] / sum * missing);
        all += weights[i] / sum * missing;
      }
      one.objective = least + share_of_sum * all;
    }
    surrogate_->learn(one.point, one.objective, one.failure);
  }
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

// Every second proposal is a neighbour of the best trial, so that a climb is finished also where the model believes it
// to be over.
std::optional<Point> Optimizer::ask_promising() {
  weigh_objectives();
  std::vector<Point> pending;
  if (known_.size() > finished_.size()) {
    for (const auto& [point, is_finished] : known_) {
      if (!is_finished) pending.push_back(point);
    }
  }
  surrogate_->prepare(pending);
  std::optional<Point> point = proposals_ % 2 == 1 ? most_promising_neighbour() : std::nullopt;
  if (!point) point = most_promising();
  ++proposals_;
  return point ? point : ask_random();
}

std::vector<const Optimizer::Finished*> Optimizer::best_trials() const {
  std::vector<const Finished*> best;
  for (const Finished& one : finished_) {
    if (one.objective) best.push_back(&one);
  }
  std::ranges::stable_sort(best, std::greater<>(), [](const Finished* one) { return *one->objective; });
  return best;
}

std::vector<Point> Optimizer::open_neighbours(const Point& point, std::string_view purpose, size_t number) const {
  const std::string stream = std::string(purpose) + " " + std::to_string(proposals_) + " " + std::to_string(number);
  std::vector<Point> list = space_.neighbours(point, stream_key(options_.seed, stream));
  std::erase_if(list, [&](const Point& one) { return !is_open(one); });
  return list;
}

// The most promising neighbour of the best trial; none if all of its neighbours were tried.
std::optional<Point> Optimizer::most_promising_neighbour() const {
  const std::vector<const Finished*> best = best_trials();
  if (best.empty()) return std::nullopt;
  const std::vector<Point> open = open_neighbours(best.front()->point, "near", 0);
  if (open.empty()) return std::nullopt;
  return *std::ranges::max_element(open, {}, [&](const Point& point) { return surrogate_->promise(point); });
}

std::vector<Point> Optimizer::candidates() const {
  const PhiloxKey key = stream_key(options_.seed, "candidates " + std::to_string(proposals_));
  std::vector<Point> list;
  std::set<Point> drawn;  // with conditions, points may be drawn twice
  for (uint64_t number = 0; number < options_.candidates; ++number) {
    std::optional<Point> point = space_.draw(key, number);
    if (!point) break;
    if (space_.is_conditional() && !drawn.insert(*point).second) continue;
    if (is_open(*point)) list.push_back(std::move(*point));
  }
  const std::vector<const Finished*> best = best_trials();
  for (size_t i = 0; i < std::min(options_.best_of, best.size()); ++i) {
    std::ranges::move(open_neighbours(best[i]->point, "steps", i), std::back_inserter(list));
  }
  return list;
}

std::optional<Point> Optimizer::most_promising() const {
  std::vector<Candidate> open;
  for (Point& point : candidates()) {
    const double bound = surrogate_->promise_bound(point);
    open.push_back({std::move(point), bound});
  }
  std::ranges::stable_sort(open, std::greater<>(), &Candidate::promise);
  // Candidates are weighed until the bounds of the others are below the promise of the best ones.
  std::vector<Candidate> best;
  for (Candidate& one : open) {
    if (best.size() == options_.climbs && one.promise <= best.back().promise) break;
    one.promise = surrogate_->promise(one.point);
    best.push_back(std::move(one));
    std::ranges::stable_sort(best, std::greater<>(), &Candidate::promise);
    if (best.size() > options_.climbs) best.pop_back();
  }
  if (best.empty()) return std::nullopt;
  for (size_t i = 0; i < best.size(); ++i) climb(best[i], i);
  return std::ranges::max_element(best, {}, &Candidate::promise)->point;
}

// Goes on to the most promising neighbour as long as there is one that promises more.
void Optimizer::climb(Candidate& from, size_t number) const {
  constexpr size_t most_steps = 10;
  for (size_t step = 0; step < most_steps; ++step) {
    Candidate next = from;
    for (Point& point : open_neighbours(from.point, "climb", most_steps * number + step)) {
      const double promise = surrogate_->promise(point);
      if (promise > next.promise) next = {std::move(point), promise};
    }
    if (next.promise <= from.promise) return;
    from = std::move(next);
  }
}

}  // namespace terrace::search
