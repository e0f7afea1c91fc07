// Estimates what a whole run costs on a machine: time, device-hours, energy, and the work that failures of nodes
// repeat.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "terrace/base/text/json.h"
#include "terrace/plan/prediction.h"

namespace terrace::plan {

// The cost of a run. A number is missing where the description of the machine lacks the figure from which it follows.
struct RunCost {
  int64_t steps = 0;
  double items = 0;                          // such as tokens
  double seconds = 0;                        // with what is repeated after failures
  double device_hours = 0;                   // in `seconds`
  std::optional<double> energy_joules = {};  // of the devices in `seconds`
  std::optional<double> restarts = {};       // expected failures of the run's nodes
  // The part of `seconds` that restarts take: the checkpoint is read, and on average half of the time between two
  // checkpoints is lost. Nothing if there are no checkpoints, with which a restart begins at the first step.
  std::optional<double> repeated_seconds = {};
  double checkpoint_interval_seconds = 0;  // 0: no checkpoints before the end
};

// The cost of all train.steps, or of as many steps as take so many items. Steps of other batch sizes, those of a
// batch-size ramp-up or of a phase, are counted with the items per second of the predicted one.
RunCost run_cost(const config::Config& config, const Prediction& prediction, const Target& target,
                 std::optional<double> items = {});

Json json_of(const RunCost& cost, const config::Config& config);
// Lines for the cost, and for each figure that is not known what the machine's description lacks.
std::string text_of(const RunCost& cost, const config::Config& config, const Target& target);

}  // namespace terrace::plan
