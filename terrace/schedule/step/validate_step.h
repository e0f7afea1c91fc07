// Checks the properties that the complete list of a rank's step must have for every schedule, group size and prefetch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "terrace/schedule/step/step.h"

namespace terrace::schedule {

// The most elements that a list holds at one time: gathered weights, and whole gradients before their reduction ends.
struct StepMemory {
  int64_t gathered_weights = 0, whole_gradients = 0;

  bool operator==(const StepMemory&) const = default;
};

// `segment_elements`: the elements of each segment of the model with the padding of its flat buffer.
StepMemory peak_memory(const StepInstructions& list, const std::vector<int64_t>& segment_elements);

// The first violation in the list of a training step, with instruction and segment; "" if the list is valid:
// - The computations, sends and receives are those of the stage's instructions, in the same order; the segments of a
//   chunk ascend in forward and descend in backward.
// - The weights of a computation are there: the updated weights of the previous step have arrived and, if weights are
//   sharded, the segment is gathered. No segment is gathered twice without a release, and none is held at the end.
// - If gradients are reduced after each micro-batch, a computation of gradients has memory for them, each segment's
//   gradient is reduced once per micro-batch, after everything that adds to it, and its memory is not used again before
//   the reduction has ended.
// - The further reductions of each segment come once, in order, after the last micro-batch, and end before the norm.
// - The norm, the update and the publishing of each segment's weights come once, in this order, after everything else.
// The list depends only on what all members of a group share, so all members make the same calls in the same order.
std::string validate_step(const StepInstructions& list, const Instructions& stage, int64_t micro_batches,
                          const StageSegments& segments, const Movements& movements);

}  // namespace terrace::schedule
