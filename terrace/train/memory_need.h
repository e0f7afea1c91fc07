// What a run will take of a machine's memory, from the formulas of docs/sharding.md.
#pragma once

#include <cstdint>

#include "terrace/config/config.h"

namespace terrace::train {

struct MemoryNeed {
  int64_t parameters = 0;  // of the whole model
  // Of the machine that needs most: its ranks, and bytes of all of them.
  int64_t ranks = 0;
  double states = 0;       // weights, gradients, optimizer states, and their copy where one is written beside training
  double activations = 0;  // as many as the schedule keeps alive, with what weight gradients that are put off need
};

// The least: what lies there only for a while comes on top. `here` neighbouring ranks of the mesh are on one machine.
MemoryNeed least_memory(const config::Config& config, int64_t ranks, int64_t here);

}  // namespace terrace::train
