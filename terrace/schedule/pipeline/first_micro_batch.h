// Finds the gradients of a step that are those of its first micro-batch alone at some time.
#pragma once

#include <cstdint>

#include "terrace/config/config.h"
#include "terrace/schedule/partition.h"
#include "terrace/schedule/step/step.h"

namespace terrace::schedule {

// The first segment of a stage whose gradient, when it is complete for the first micro-batch, already has parts of
// others, as that of an embedding that a head on the same stage reads may have; -1: there is none.
int64_t first_mixed_segment(const StepInstructions& list, const StageSegments& segments);

// Throws UserError if train.noise_scale_every or train.check_computation_every is set, and such a segment on any stage
// leaves no gradient of the first micro-batch by itself. Nothing is mixed in a step of one micro-batch on each of
// `data_ranks` data-parallel ranks.
void check_first_gradients(const config::Config& config, int64_t data_ranks);

}  // namespace terrace::schedule
