// Compares the steps that evaluate with those after which trials are compared.
#include "terrace/search/study/study_evaluations.h"

#include <fmt/format.h>

#include <algorithm>

namespace terrace::search {

std::string evaluation_problem(const StudySettings& settings, const config::Config& config) {
  const auto is_held_out = [](const Goal& goal) { return goal.figure.starts_with("validation_"); };
  if (std::ranges::none_of(settings.goals, is_held_out)) return "";
  const int64_t every = config.train.evaluate_every;
  if (every == 0) {
    return "needs train.evaluate_every in the configuration, which is 0; write such as train.evaluate_every = 100";
  }
  if (settings.method != Method::successive_halving || settings.halving.most == 0) return "";
  for (const int64_t budget : settings.halving.budgets()) {
    if (budget % every == 0 || budget == config.train.steps) continue;
    return fmt::format(
        "is not known after {} steps, since train.evaluate_every = {}; write a divisor of halving.first = {}", budget,
        every, settings.halving.first);
  }
  return "";
}

}  // namespace terrace::search
