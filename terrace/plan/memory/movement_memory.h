// The memory that collectives of sharded data parallelism take beside the buffers that they read and write: payloads in
// other types, sums between two hops, and sums that are added to those of earlier micro-batches. docs/cost_model.md has
// the formulas.
#pragma once

#include <cstdint>

#include "terrace/config/config.h"
#include "terrace/machine/software.h"
#include "terrace/plan/planned_run.h"
#include "terrace/schedule/step/step.h"

namespace terrace::plan {

// Bytes on one rank of one call of a movement. A movement of one call has nothing after it.
struct CallMemory {
  int64_t beginning = 0;  // the most while the call begins, which encodes
  int64_t moving = 0;     // while the call is under way
  int64_t ending = 0;     // the most while it ends, which decodes and adds
  int64_t after = 0;      // until the next call of the movement begins

  bool operator==(const CallMemory&) const = default;
};

// The memory of a call for a flat buffer of the run. `instruction` begins or ends a movement of a run that goes by one
// route (Routing::automatic counts as flat).
CallMemory call_memory(const PlannedRun& run, const schedule::StepInstruction& instruction, const PlannedFlat& flat);
// The memory of a call for all flat buffers of the instruction's segment together.
CallMemory call_memory(const PlannedRun& run, const schedule::StepInstruction& instruction);

// The most that all movements of a stage's rank take at one time in a step that follows others. Micro-batches beyond
// the third are not followed, since those between the first and the last are alike; with several stages, three
// micro-batches are taken in the order of 1F1B.
int64_t movement_bytes(const PlannedRun& run, int64_t stage, const machine::Software& software);

}  // namespace terrace::plan
