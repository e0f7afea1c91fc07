// The memory of a stage's rank during a simulated step.
#pragma once

#include <vector>

#include "terrace/observe/step_record.h"
#include "terrace/plan/time/simulated_step.h"

namespace terrace::plan {

// Bytes in use after each instruction that takes or frees memory, and while a unit is computed, in order of time:
// states, activations, gathered weights and whole gradients, temporary tensors, movements, communication and the
// allocator's slack. The most of them is at most StageMemory::total(), which adds up the most of each category.
std::vector<observe::MemorySample> memory_over_time(const SimulatedStep& step, int64_t stage);

}  // namespace terrace::plan
