// Predicts the evaluations of a run.
#pragma once

#include "terrace/config/config.h"
#include "terrace/plan/target.h"

namespace terrace::plan {

// Seconds in which each data-parallel rank computes the loss of one micro-batch, forward only, through all stages of
// the pipeline with the gathers of cut weights. Evaluations take one such round after the other, since all ranks agree
// before each whether the run goes on: stages do not overlap. Throws as planned_run() does.
double evaluation_round_seconds(const config::Config& config, const Target& target);

}  // namespace terrace::plan
