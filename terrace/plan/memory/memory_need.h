// Estimates how much of a machine's memory a run needs, from the unit table and the formulas of docs/sharding.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "terrace/config/config.h"

namespace terrace::plan {

struct MemoryNeed {
  int64_t parameters = 0;  // of the whole model
  // The memory of which most is needed: the number of ranks that share it, and the bytes of all these ranks together.
  int64_t ranks = 0;
  double states = 0;       // weights, gradients, optimizer states and errors of quantized gradients
  double feedback = 0;     // errors of quantized gradients alone
  double activations = 0;  // kept alive by the schedule, and what is held for deferred weight gradients
  double copies = 0;       // copies of the states for saving during training, in the machine's memory on every device
  double beside = 0;       // beside tensors, in the machine's memory: rank_overhead.h

  double all() const { return states + activations + copies + beside; }
  // "weights, gradients and optimizer states", and the errors where there are some.
  std::string_view states_text() const;
};

// Keys that make fewer copies (copied_states.h), with what each saves and ", " behind it; "" where there are none.
std::string fewer_copies(const config::CheckpointConfig& checkpoint, bool on_one_node, bool on_gpus);

// The least memory that the run needs with its largest micro-batches, in the phase that needs most; temporary tensors
// need more. `here` neighbouring ranks of the mesh are on one machine, and `together` neighbouring ranks share a
// memory: those of a machine, or 1 on GPUs.
MemoryNeed least_memory(const config::Config& config, int64_t ranks, int64_t here, int64_t together);

// Bytes; 0: unknown.
struct AvailableMemory {
  double machine = 0;
  std::optional<double> gpu = {};  // where the ranks compute on GPUs

  // The ranks of a machine that share the memory in which they compute.
  int64_t ranks_together(int64_t here) const { return gpu ? 1 : here; }
};

// Why the run does not fit the memory of its machine, or of its GPU, with the ways out; "" if it fits or the memory is
// unknown. `need` is the least_memory() of the ranks that share the memory in which they compute.
std::string memory_refusal(const config::Config& config, int64_t ranks, int64_t here, MemoryNeed need,
                           const AvailableMemory& available);

}  // namespace terrace::plan
