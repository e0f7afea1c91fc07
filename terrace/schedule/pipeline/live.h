// Counts what a stage keeps in memory while it executes its list, in units of one chunk's tensors for one micro-batch.
#pragma once

#include <cstdint>

#include "terrace/schedule/step/instruction.h"

namespace terrace::schedule {

struct Live {
  // Saved from forward to the end of backward or input gradient: all that the chunk saves; with recompute its input.
  int64_t activations = 0;
  // Saved from input gradient to weight gradient: the inputs of the chunk's linear layers and the gradients of their
  // outputs. Recompute does not reduce them: the input gradient recomputes them and keeps them for the weight gradient.
  int64_t weight_inputs = 0;
  // The sum of both at one time.
  int64_t together = 0;

  // The most memory that these numbers allow, given the bytes of one tensor of each kind.
  int64_t bytes(int64_t activation_bytes, int64_t weight_input_bytes) const;
  bool operator==(const Live&) const = default;
};

// The most tensors of each kind that the list keeps alive.
Live live_peak(const Instructions& list);

// The most receives that are posted at one time without the start of their computation; each has its own buffer.
int64_t receive_peak(const Instructions& list);

}  // namespace terrace::schedule
