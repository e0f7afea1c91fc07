// Whether the momentum of outer updates (layout.outer_every) fits the length of a run.
#pragma once

#include <string>

#include "terrace/config/config.h"

namespace terrace::config {

// A sentence that advises the mean of the copies where a run from random weights has few outer updates with momentum:
// so far as was measured, such runs end with higher losses (bench/results/outer_steps.md). "" otherwise.
std::string few_outer_updates(const Config& config);

}  // namespace terrace::config
