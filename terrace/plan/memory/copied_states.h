// The bytes of copies of a run's states: in checkpoints, beside training while they are written, and in the memory of
// nodes (checkpoint.memory_every).
#pragma once

#include <cstdint>

#include "terrace/config/config.h"
#include "terrace/plan/memory/stage_memory.h"
#include "terrace/plan/planned_run.h"

namespace terrace::plan {

// The bytes of a parameter's states in a checkpoint: its fp32 weight and both moments.
inline constexpr double checkpoint_bytes_per_parameter = 12;

// Bytes that a rank of the stage writes into a checkpoint, at most and on average over the ranks that hold the same
// parameters: of the ranks that hold an element, one writes it. Errors of quantized gradients are each rank's own.
// `memory` is that of the stage.
double saved_bytes(const PlannedRun& run, int64_t stage, const StageMemory& memory);

// Bytes that all ranks of the stage write for copies that make steps by themselves (layout.outer_every), beside the
// states of the model: the weights and moments of each copy, and once the weights and the momentum that copies have in
// common. 0 without such copies.
double local_copies_bytes(const PlannedRun& run, int64_t stage);

// The copies that a run makes, and how many times its states are in each.
struct StateCopies {
  // That a thread writes from: of a checkpoint beside training, and of a copy for memory_every where the states are on
  // GPUs; states in host memory are copied into the files themselves.
  int64_t written = 0;
  int64_t files = 0;  // in checkpoint.memory_folder: the last whole copy, and the new one

  // How many times a node holds as many bytes as its ranks save. On one node it holds no states of others, on several
  // also those of the node before.
  int64_t times(bool on_one_node) const { return written + files * (on_one_node ? 1 : 2); }
  bool operator==(const StateCopies&) const = default;
};
StateCopies state_copies(const config::CheckpointConfig& checkpoint, bool on_gpus);

// Bytes of all copies of a rank's states in the machine's memory, if the node before holds as much. 0 where a run has
// none.
double copied_bytes(const PlannedRun& run, int64_t stage, const StageMemory& memory);

// Whether all ranks are on one node, with `here` ranks on each machine.
bool is_one_node(const config::Config& config, int64_t ranks, int64_t here);

}  // namespace terrace::plan
