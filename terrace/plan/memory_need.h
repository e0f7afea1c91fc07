// What a run will take of a machine's memory, from the unit table and the formulas of docs/sharding.md.
#pragma once

#include <cstdint>
#include <string>

#include "terrace/config/config.h"
#include "terrace/schedule/unit_table.h"

namespace terrace::plan {

struct MemoryNeed {
  int64_t parameters = 0;  // of the whole model
  // Of the machine that needs most: its ranks, and bytes of all of them.
  int64_t ranks = 0;
  double states = 0;       // weights, gradients, optimizer states, and their copy where one is written beside training
  double activations = 0;  // as many as the schedule keeps alive, and what is held for deferred weight gradients
};

// How each rank of so many data-parallel ones computes a micro-batch.
schedule::UnitTableOptions unit_table_options(const config::Config& config, int64_t data_ranks);

// The least: what is there only for a while comes on top. `here` neighbouring ranks of the mesh are on one machine.
MemoryNeed least_memory(const config::Config& config, int64_t ranks, int64_t here);

// Why the run does not fit, with the ways out; "" where it does. Arguments as of least_memory(), and its result.
std::string memory_refusal(const config::Config& config, int64_t ranks, int64_t here, const MemoryNeed& need,
                           double available_bytes);

}  // namespace terrace::plan
