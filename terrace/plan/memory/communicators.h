// Counts the communicators of a rank and the memory that the library of collectives takes for them.
#pragma once

#include <cstdint>

#include "terrace/machine/machine.h"
#include "terrace/plan/planned_run.h"
#include "terrace/plan/target.h"

namespace terrace::plan {

// The communicators of one rank that have other members.
struct CommunicatorCount {
  int64_t groups = 0;      // of three and more members
  int64_t pairs = 0;       // of two members
  int64_t directions = 0;  // between two stages, which only send

  int64_t all() const { return groups + pairs + directions; }
  bool operator==(const CommunicatorCount&) const = default;
};

// The communicators that training connects for its whole duration (parallel::CutModel), on the first rank of a stage.
// Other programs have groups of the same kinds and are counted in the same way. Sums within a batch norm have one more,
// which is not counted.
CommunicatorCount communicators_of(const PlannedRun& run, int64_t stage);

// Channels with which a message between two stages moves: as many multiprocessors of a GPU (comm/nccl).
inline constexpr int64_t channels_of_message = 4;

// Bytes on the rank; 0 where the machine states none.
double communicator_bytes(const CommunicatorCount& count, const machine::Communicators& each);
double communicator_bytes(const PlannedRun& run, int64_t stage, const machine::Communicators& each);

// Bytes of tensors and communicators on a rank of the stage.
double stage_bytes(const PlannedRun& run, int64_t stage, const Target& target);
// Bytes of tensors and communicators on a rank of the stage that takes most. The run fits if they are at most those of
// a device without Device::reserved_bytes.
double needed_bytes(const PlannedRun& run, const Target& target);

}  // namespace terrace::plan
