// The memory of its machine that a rank takes beside its tensors.
#pragma once

#include <cstdint>

#include "terrace/plan/planned_run.h"

namespace terrace::plan {

// Bytes: names and marks of the parameters of the whole model, which every rank builds without their values, and its
// stacks, lists, connections and what the libraries keep for a thread. The libraries themselves, which the ranks of a
// machine share, are not counted. docs/cost_model.md has the formula, whose constants are measured.
double rank_overhead_bytes(const PlannedRun& run);

// Bytes by which the flat buffers of a rank of the stage are larger than its weights, gradients and optimizer states:
// they are padded to pieces for every data-parallel rank. Small, unless the model is.
double padding_bytes(const PlannedRun& run, int64_t stage);

}  // namespace terrace::plan
