// The moments of the time of a step whose computations are independent random variables: normal approximations of the
// stages' clocks with all of their covariances, by Clark's formulas for the larger of two (larger_of()).
#pragma once

#include <vector>

#include "terrace/plan/noise/group_noise.h"
#include "terrace/schedule/step/step_graph.h"

namespace terrace::plan {

// The moments of the end of the step if the computations of operation i take computing[i] together.
Moments step_moments(const schedule::StepGraph& graph, const std::vector<Moments>& computing);

}  // namespace terrace::plan
