// The times of a predicted step as a trace, in the form in which training writes its measured events.
#pragma once

#include <cstdint>
#include <vector>

#include "terrace/observe/trace.h"
#include "terrace/plan/prediction.h"

namespace terrace::plan {

// For each of the stages one lane of computation and one for each tier of links that the stage uses. The rank of a lane
// is its stage. Waiting is what lies between spans.
observe::Trace step_trace(const DetailedPrediction& detailed, const machine::Machine& machine,
                          const std::vector<int64_t>& stages);

}  // namespace terrace::plan
