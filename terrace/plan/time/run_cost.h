// Estimates what a whole run costs on a machine: its time on a calendar, device-hours and energy.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "terrace/base/text/json.h"
#include "terrace/plan/calendar/run_calendar.h"
#include "terrace/plan/estimate.h"
#include "terrace/plan/prediction.h"

namespace terrace::plan {

// The cost of a run. A number is missing where the description of the machine lacks the figure from which it follows.
struct RunCost {
  int64_t steps = 0;
  double items = 0;  // such as tokens
  RunCourse course = {};
  RunCalendar calendar = {};
  double device_hours = 0;                   // for which jobs occupy the devices
  std::optional<double> energy_joules = {};  // of the devices for so long
  std::optional<double> restarts = {};       // expected failures of the run's nodes
  CheckpointEstimate checkpoint = {};
  double checkpoint_interval_seconds = 0;       // steps from one checkpoint to the next; 0: none before the end
  int64_t evaluations = 0;                      // that are counted
  double evaluation_seconds = 0;                // of one
  double evaluation_round_seconds = 0;          // of one round of micro-batches; 0: there is no evaluation
  double copy_interval_seconds = 0;             // steps from one copy in memory to the next; 0: there are none
  double best_copy_interval_seconds = 0;        // by the machine's failures; 0: not known
  double best_checkpoint_interval_seconds = 0;  // beside these copies; 0: not known
  double job_limit_seconds = 0;                 // the longest time of a job by [launch]; 0: not stated
  int64_t nodes = 1;

  double seconds() const { return calendar.total(); }
};

// The cost of all train.steps, or of as many steps as take so many items. Steps of other batch sizes, those of a
// batch-size ramp-up or of a phase, are counted with the items per second of the predicted one. Jobs are as long as
// [launch] allows and are asked to save as `terrace launch` asks them; train.time_limit may end them earlier. A failure
// is detected after layout.timeout, for which other ranks wait. A `round_seconds` that is not 0 stands in place of
// evaluation_round_seconds(), which is computed where the run evaluates. Throws as planned_run() does where the run
// evaluates.
RunCost run_cost(const config::Config& config, const Prediction& prediction, const Target& target,
                 std::optional<double> items = {}, double round_seconds = 0);

// The keys: steps, the family's items, seconds, device_hours, energy_joules, restarts, repeated_seconds (null where
// they are not known or the run never ends), jobs, full_jobs, job_limit_seconds (null where none is stated),
// checkpoints, checkpoint_stall_seconds, memory_copies, memory_copy_stall_seconds, best_memory_interval_seconds and
// best_checkpoint_interval_seconds (null where there are no copies or failures are not known), evaluations,
// evaluation_seconds (of one), and parts: seconds that add up to the whole: steps, checkpoints, copies, evaluations,
// repeated, detection, starts, reading, queue.
Json json_of(const RunCost& cost, const config::Config& config);
// Lines for the cost and its parts, warnings, and for each figure that is not known what the machine's description or
// the configuration lacks.
std::string text_of(const RunCost& cost, const config::Config& config, const Target& target);

}  // namespace terrace::plan
