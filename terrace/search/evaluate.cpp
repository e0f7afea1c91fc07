// Turns errors into failures, and makes the configuration of a point.
#include "terrace/search/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "terrace/base/error.h"
#include "terrace/base/system/child_process.h"
#include "terrace/config/family.h"
#include "terrace/config/load_for_plan.h"
#include "terrace/config/section_keys.h"
#include "terrace/models/planned_families.h"
#include "terrace/observe/figures.h"

namespace terrace::search {

Outcome TrialEvaluator::evaluate(const TrialJob& job) {
  try {
    return run(job);
  } catch (const UserError& error) {
    return {.failure = "layout", .reason = error.what()};
  } catch (const CannotStart& error) {
    return {.failure = "start", .reason = error.what()};
  } catch (const std::exception& error) {
    return {.failure = "error", .reason = error.what()};
  }
}

std::string commonest_failure(const std::vector<Outcome>& failures) {
  std::map<std::string, int64_t> counts;
  for (const Outcome& one : failures) ++counts["F_" + one.failure + ": " + one.reason];
  const auto most = std::ranges::max_element(counts, {}, [](const auto& one) { return one.second; });
  return fmt::format("{} of them by {}", most->second, most->first);
}

std::vector<TrialFigure> simulated_figures(const config::Family& family, bool has_noise_scale) {
  std::vector<TrialFigure> figures = {{"step_seconds", true},
                                      {family.items + "_per_second"},
                                      {"flops_per_device"},
                                      {"mfu"},
                                      {"hfu"},
                                      {"memory_bytes", true},
                                      {"shortest_seconds", true},
                                      {"longest_seconds", true},
                                      {"median_difference", true}};
  if (has_noise_scale) {
    figures.push_back({"same_loss_seconds", true});
    figures.push_back({"same_loss_samples", true});
  }
  return figures;
}

std::vector<TrialFigure> trained_figures(const config::Config& config) {
  std::vector<TrialFigure> figures = {
      {"step_seconds", true},   {config.family->items + "_per_second"}, {"mfu"}, {"memory_bytes", true}, {"loss", true},
      {"validation_loss", true}};
  for (const observe::Figure& figure : observe::figures_of(config).list(config)) {
    const bool smaller_is_better = figure.better != observe::Better::higher;
    if (figure.in_steps) figures.push_back({figure.name, smaller_is_better});
    figures.push_back({"validation_" + figure.name, smaller_is_better});
  }
  return figures;
}

config::Config configuration_of(const Study& study, const Point& point) {
  return config::load_for_plan(study.settings.config, models::planned_families(), study.space.settings(point));
}

int64_t devices_of(const Study& study, const Point& point) {
  const double devices = study.space.number(point, "devices");
  if (devices >= 1 && devices <= static_cast<double>(config::most_ranks) && devices == std::floor(devices)) {
    return static_cast<int64_t>(devices);
  }
  throw UserError::of("devices = {} must be a whole number from 1 to {}", devices, config::most_ranks);
}

}  // namespace terrace::search
