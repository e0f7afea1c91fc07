// Proves of the complete list of a rank's step what must hold whatever the schedule, the groups and the prefetch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "terrace/schedule/step.h"

namespace terrace::schedule {

// Elements that a list holds at once, at most: weights that are gathered, and whole gradients on their way.
struct StepMemory {
  int64_t gathered_weights = 0, whole_gradients = 0;

  bool operator==(const StepMemory&) const = default;
};

// `segment_elements`: of each segment of the model, padded as they are gathered.
StepMemory peak_memory(const StepInstructions& list, const std::vector<int64_t>& segment_elements);

// What is wrong with the list of a training step, naming instruction and segment; "" where nothing is. It holds that
// - the computations, sends and receives are those of the stage's instructions, in their order, with the segments of a
//   chunk ascending in forward and descending in backward;
// - a computation has its weights: gathered and arrived where weights are cut, and those of the update before arrived;
//   nothing is gathered twice without a release, and nothing is held at the end;
// - where gradients leave after each micro-batch, a computation of gradients has memory for them, each segment's
// gradient is
//   reduced once a micro-batch and after everything that adds to it, and the memory is not used before it has left;
// - the further reductions of each segment come once, in their order, after the last micro-batch's, and all have ended
//   before the norm;
// - the norm, the update and the publishing of each segment's weights come once, in this order, after everything else.
// The list depends on nothing that differs within a group, so all members of a group make the same calls in one order.
std::string validate_step(const StepInstructions& list, const Instructions& stage, int64_t micro_batches,
                          const StageSegments& segments, const Movements& movements);

}  // namespace terrace::schedule
