// Predicts the step of a point's configuration.
#include "terrace/search/simulation.h"

#include <cmath>

#include "terrace/plan/layouts/same_loss.h"
#include "terrace/plan/prediction.h"
#include "terrace/plan/report/published_errors.h"
#include "terrace/search/study/placeholders.h"

namespace terrace::search {

Simulation::Simulation(const Study& study)
    : study_(study),
      varies_machine_(!names_in_braces(study.settings.machine).empty()),
      target_{.machine = varies_machine_ ? machine::Machine() : machine::load(study.settings.machine),
              .software = machine::load_software(study.settings.software)} {}

machine::Machine Simulation::machine_of(const Point& point) const {
  const std::string path = filled(study_.settings.machine,
                                  [&](const std::string& parameter) { return study_.space.text_of(point, parameter); });
  const std::lock_guard lock(mutex_);
  const auto known = machines_.find(path);
  return known != machines_.end() ? known->second : machines_.emplace(path, machine::load(path)).first->second;
}

Outcome Simulation::run(const TrialJob& job) {
  plan::Target target = target_;
  if (varies_machine_) target.machine = machine_of(job.point);
  target.devices = devices_of(study_, job.point);
  const config::Config config = configuration_of(study_, job.point);
  const plan::PlannedRun planned = plan::planned_run(config, target);
  const plan::Prediction prediction = plan::predict(planned, target);
  if (!prediction.feasible()) return {.failure = "oom", .reason = prediction.reason};
  const double device_seconds = prediction.step_seconds * static_cast<double>(target.devices);
  Outcome outcome{.figures = {prediction.step_seconds, prediction.items_per_second(),
                              prediction.model_flops / device_seconds, prediction.mfu(), prediction.hfu(),
                              prediction.fullest().memory.total()}};
  const plan::StepInterval interval = plan::step_interval(planned, prediction, target, plan::published_errors());
  const bool is_known = interval.outside.empty();
  outcome.figures.push_back(is_known ? interval.shortest_seconds : std::nan(""));
  outcome.figures.push_back(is_known ? interval.longest_seconds : std::nan(""));
  outcome.figures.push_back(interval.errors.median_difference);
  if (study_.noise_scale > 0) {
    // The reference is a step of one second, so the seconds are those in which the trial comes as far as that step.
    const plan::SameLoss to_loss = plan::same_loss(study_.noise_scale, config.train.global_batch,
                                                   prediction.step_seconds, study_.reference_batch, 1);
    outcome.figures.push_back(to_loss.seconds);
    outcome.figures.push_back(to_loss.samples);
  }
  for (const double value : study_.goal_values(outcome.figures)) {
    if (!std::isnan(value)) continue;
    return {.failure = "objective", .reason = "no interval of the step is known: " + plan::text_of(interval)};
  }
  return outcome;
}

}  // namespace terrace::search
