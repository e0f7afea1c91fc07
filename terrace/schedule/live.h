// What a stage keeps in memory while it executes its list, counted in tensors of one chunk and one micro-batch.
#pragma once

#include <cstdint>

#include "terrace/schedule/instruction.h"

namespace terrace::schedule {

struct Live {
  // Between forward and the end of the backward or input gradient: all that the chunk saves; with recompute its input.
  int64_t activations = 0;
  // Between input gradient and weight gradient: the inputs of the chunk's weights and the gradients of their outputs.
  // Recompute does not make them smaller: the input gradient computes them, and they stay until the weight gradient.
  int64_t weight_inputs = 0;
  // Both at the same time.
  int64_t together = 0;

  // The most memory that so many take, with the bytes of each.
  int64_t bytes(int64_t activation_bytes, int64_t weight_input_bytes) const;
  bool operator==(const Live&) const = default;
};

// The most that the list holds of each kind.
Live live_peak(const Instructions& list);

// The most receives that are posted at once and whose computation has not begun: each has a buffer of its own.
int64_t receive_peak(const Instructions& list);

}  // namespace terrace::schedule
