// Predicted trials that errors of predictions do not tell from the best one, and where their goals lie as measured.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "terrace/search/search.h"

namespace terrace::search {

// Whether a predicted figure is the step's time, a multiple of it, or divided by it: errors of the step's time are then
// errors of the figure.
bool follows_step_time(const std::string& figure);

// Whether one value of a figure that follows the step's time is worse than the best one by no more than the share by
// which errors of published runs differ (PublishedErrors::median_difference).
bool is_tied(double best, double value, bool smaller_is_better, double median_difference);

// The best trial and those that are tied with it, the best first. Only the best one where trials are not predictions,
// with several goals, or with a goal that does not follow the step's time; none if all trials failed.
std::vector<Trial> tied_with_best(const Study& study, const SearchResult& result);

// The interval within which the only goal of a predicted trial lies as measured, the lower value first; none where
// nothing is known of it (StepInterval::outside), or where the goal does not follow the step's time.
std::optional<std::pair<double, double>> goal_interval(const Study& study, const Trial& trial);

}  // namespace terrace::search
