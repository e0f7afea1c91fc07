// The order of each stage's computations, without sends and receives.
#pragma once

#include "terrace/schedule/pipeline/pipeline.h"

namespace terrace::schedule {

// The computations of the stage in order, without transfers and optimizer step.
Instructions compute_order(const Pipeline& pipeline, int64_t stage);

// The number of forwards before the first backward of an interleaved stage.
int64_t interleaved_warmup(const Pipeline& pipeline, int64_t stage);

}  // namespace terrace::schedule
