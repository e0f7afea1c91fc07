// Steps with noise as text for people and as JSON for programs.
#pragma once

#include <cstdint>
#include <string>

#include "terrace/base/text/json.h"
#include "terrace/plan/noise/drawn_steps.h"
#include "terrace/plan/noise/expected_step.h"

namespace terrace::plan {

// "61.2 s (+2.1%)".
std::string text_of_noisy_seconds(double seconds, double noiseless_seconds);
// The costs in seconds, by name: own, tensor, stages and replicas.
Json json_of(const NoiseCosts& costs);

// "61.2 s (+2.1%): devices by themselves 0.1%, tensor groups 1.2%, pipeline 0.3%, replicas 0.5%".
std::string text_of(const ExpectedStep& expected);
// The keys: expected_step_seconds, and costs_seconds by name.
Json json_of(const ExpectedStep& expected);

// The median, the interval of 90% of the steps, the mean and the costs in lines.
std::string text_of(const DrawnSteps& drawn, double noiseless_seconds);
// The keys: draws, seed, median_seconds, low_seconds (5% of the steps take less), high_seconds (5% take more),
// mean_seconds, and costs_seconds by name.
Json json_of(const DrawnSteps& drawn, uint64_t seed);

}  // namespace terrace::plan
