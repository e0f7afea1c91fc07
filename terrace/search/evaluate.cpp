// Predicts the step of a point's configuration.
#include "terrace/search/evaluate.h"

#include <cmath>

#include "terrace/base/error.h"
#include "terrace/config/family.h"
#include "terrace/config/load_for_plan.h"
#include "terrace/config/section_keys.h"
#include "terrace/models/cost/family.h"
#include "terrace/plan/prediction.h"

namespace terrace::search {

std::vector<Figure> simulated_figures(const config::Family& family) {
  return {{"step_seconds", true}, {family.items + "_per_second"}, {"flops_per_device"}, {"mfu"}, {"hfu"},
          {"memory_bytes", true}};
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

Simulation::Simulation(const Study& study)
    : study_(study),
      target_{.machine = machine::load(study.settings.machine),
              .software = machine::load_software(study.settings.software)} {}

Outcome Simulation::evaluate(const Point& point) const {
  try {
    plan::Target target = target_;
    target.devices = devices_of(study_, point);
    const config::Config config = configuration_of(study_, point);
    const plan::Prediction prediction = plan::predict(config, target);
    if (!prediction.feasible()) return {.failure = "oom", .reason = prediction.reason};
    const double device_seconds = prediction.step_seconds * static_cast<double>(target.devices);
    return {.figures = {prediction.step_seconds, prediction.items_per_second(), prediction.model_flops / device_seconds,
                        prediction.mfu(), prediction.hfu(), prediction.fullest().memory.total()}};
  } catch (const UserError& error) {
    return {.failure = "layout", .reason = error.what()};
  } catch (const std::exception& error) {
    return {.failure = "error", .reason = error.what()};
  }
}

}  // namespace terrace::search
