// Estimates how much of a machine's memory a run needs, from the unit table and the formulas of docs/sharding.md.
#pragma once

#include <cstdint>
#include <string>

#include "terrace/config/config.h"
#include "terrace/schedule/unit_table.h"

namespace terrace::plan {

struct MemoryNeed {
  int64_t parameters = 0;  // of the whole model
  // The machine that needs most: the number of its ranks, and the bytes of all its ranks together.
  int64_t ranks = 0;
  double states = 0;       // weights, gradients, optimizer states, and their copy for saving during training
  double activations = 0;  // those that the schedule keeps alive, and what is held for deferred weight gradients
};

// How each of `data_ranks` data-parallel ranks computes a micro-batch.
schedule::UnitTableOptions unit_table_options(const config::Config& config, int64_t data_ranks);

// The least memory that the run needs; temporary tensors need more. `here` neighbouring ranks of the mesh are on one
// machine.
MemoryNeed least_memory(const config::Config& config, int64_t ranks, int64_t here);

// Why the run does not fit the memory, with the ways out; "" if it fits. The first three arguments are those of
// least_memory(), and `need` is its result.
std::string memory_refusal(const config::Config& config, int64_t ranks, int64_t here, const MemoryNeed& need,
                           double available_bytes);

}  // namespace terrace::plan
