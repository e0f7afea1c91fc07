// Checks before a run is built: that the files which a configuration names can be used and that the memory suffices.
#pragma once

#include <c10/core/Device.h>

#include "terrace/config/config.h"
#include "terrace/plan/memory_need.h"

namespace terrace::train {

// Throws one UserError with every problem: corpora and checkpoints that do not exist, a tokenizer that cannot be read
// or has more tokens than the model, a run's folder that cannot be written to.
void check_files(const config::Config& config);

// Warns which keys have no effect, because of the number of ranks (`here` of them on this machine) or of a --set.
void warn_of_idle_keys(const config::Config& config, int64_t ranks, int64_t here);

// The least memory that weights, gradients, optimizer states and activations need on that many ranks, `here` of them on
// this machine. Throws UserError with ExitCode::infeasible if the machine, or the GPU if the device is one, has less
// memory available; with train.check_memory = false it logs that as a warning.
plan::MemoryNeed check_memory(const config::Config& config, int64_t ranks = 1, int64_t here = 1,
                              const at::Device& device = at::kCPU);

}  // namespace terrace::train
