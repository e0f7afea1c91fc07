// A simulated step in the form in which training records its measured ones.
#pragma once

#include <cstdint>
#include <vector>

#include "terrace/observe/step_record.h"
#include "terrace/plan/prediction.h"

namespace terrace::plan {

// Events and memory over time of the given stages; figures of all. Updated weights are published at the beginning of
// the step.
observe::StepRecord step_record(const SimulatedStep& step, const Prediction& prediction,
                                const std::vector<int64_t>& stages);

// The record of a predicted step of a configuration, with events of sixteen stages, spread over all. Throws as
// planned_run does.
observe::StepRecord step_record(const config::Config& config, const Target& target);

}  // namespace terrace::plan
