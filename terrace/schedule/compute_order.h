// The order in which each stage computes, without what it sends and receives.
#pragma once

#include "terrace/schedule/pipeline.h"

namespace terrace::schedule {

// What the stage computes, in order; no transfers and no optimizer step.
Instructions compute_order(const Pipeline& pipeline, int64_t stage);

// Forwards that an interleaved stage does before its first backward.
int64_t interleaved_warmup(const Pipeline& pipeline, int64_t stage);

}  // namespace terrace::schedule
