// Compares trials by the errors of the best one's kind of layout.
#include "terrace/search/ties.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace terrace::search {
namespace {

// NaN if there is no such figure.
double figure_of(const Study& study, const Trial& trial, const std::string& name) {
  const auto figure = std::ranges::find(study.figures, name, &TrialFigure::name);
  const auto place = static_cast<size_t>(figure - study.figures.begin());
  return place < trial.outcome.figures.size() ? trial.outcome.figures[place] : std::numeric_limits<double>::quiet_NaN();
}

bool has_one_goal_of_time(const Study& study) {
  return study.settings.evaluator == Evaluator::simulate && study.settings.goals.size() == 1 &&
         follows_step_time(study.settings.goals.front().figure);
}

}  // namespace

bool follows_step_time(const std::string& figure) {
  constexpr std::array figures = {"step_seconds",    "flops_per_device", "mfu", "hfu", "shortest_seconds",
                                  "longest_seconds", "same_loss_seconds"};
  return figure.ends_with("_per_second") || std::ranges::find(figures, figure) != figures.end();
}

bool is_tied(double best, double value, bool smaller_is_better, double median_difference) {
  const double longer = smaller_is_better ? value / best : best / value;
  return longer <= 1 + median_difference;
}

std::vector<Trial> tied_with_best(const Study& study, const SearchResult& result) {
  std::vector<Trial> trials = result.best(result.trials.size());
  if (trials.empty()) return trials;
  const double difference = figure_of(study, trials.front(), "median_difference");
  if (!has_one_goal_of_time(study) || !(difference >= 0)) {
    trials.resize(1);
    return trials;
  }
  const Goal& goal = study.settings.goals.front();
  const auto value = [&](const Trial& trial) { return goal.signed_value(trial.objectives.front()); };
  const auto first_behind = std::ranges::find_if_not(trials, [&](const Trial& trial) {
    return is_tied(value(trials.front()), value(trial), goal.minimizes, difference);
  });
  trials.erase(first_behind, trials.end());
  return trials;
}

std::optional<std::pair<double, double>> goal_interval(const Study& study, const Trial& trial) {
  if (!has_one_goal_of_time(study) || trial.failed()) return std::nullopt;
  const double step = figure_of(study, trial, "step_seconds");
  const double shortest = figure_of(study, trial, "shortest_seconds"),
               longest = figure_of(study, trial, "longest_seconds");
  if (!std::isfinite(shortest) || !std::isfinite(longest)) return std::nullopt;
  const Goal& goal = study.settings.goals.front();
  // A bound of the interval is no prediction that would err.
  if (goal.figure == "shortest_seconds" || goal.figure == "longest_seconds") return std::nullopt;
  const double value = goal.signed_value(trial.objectives.front());
  if (goal.figure.ends_with("_seconds")) return std::pair(value * shortest / step, value * longest / step);
  return std::pair(value * step / longest, value * step / shortest);
}

}  // namespace terrace::search
