// Predicts how the time of a step changes with the number of devices.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "terrace/base/text/json.h"
#include "terrace/plan/prediction.h"
#include "terrace/plan/report/published_errors.h"

namespace terrace::plan {

// One number of devices; the devices that are more or fewer than the first are more or fewer data-parallel ranks.
struct ScalingPoint {
  int64_t devices = 0;
  int64_t global_batch = 0;
  Prediction prediction = {};
  double efficiency = 0;  // items per second and device, as a share of those of the first number of devices
  StepInterval interval = {};
  // The efficiency as measured lies between these if predictions err as those of published runs did; none for the first
  // number of devices, and where one of the two steps has no interval.
  std::optional<RatioInterval> efficiency_interval = {};
};

struct Scaling {
  std::vector<ScalingPoint> weak;     // the global batch grows with the devices
  std::vector<ScalingPoint> strong;   // the global batch is that of the configuration
  std::vector<std::string> left_out;  // sentences: why a number of devices has no point
};

// The configuration's global batch is that of the first number of devices. Throws UserError if the machine states no
// rates in the run's precision.
Scaling scaling(const config::Config& config, const Target& target, const std::vector<int64_t>& devices,
                const std::vector<PublishedErrors>& errors = published_errors());

// Why no number of devices has a point that fits; "" if one has.
std::string why_none_fits(const Scaling& scaling);

// `weak` and `strong`: a list with devices, global_batch, feasible, step_seconds, interval (as of a plan),
// items_per_second, mfu, efficiency and efficiency_interval (lowest, highest, shares_errors; null where there is none);
// `left_out`.
Json json_of(const Scaling& scaling);
std::string text_of(const Scaling& scaling, const std::string& items);

}  // namespace terrace::plan
