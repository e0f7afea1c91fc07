// What can be known before anything is opened for long: the files that a configuration names, and whether it fits.
#pragma once

#include "terrace/config/config.h"
#include "terrace/plan/memory_need.h"

namespace terrace::train {

// Throws one UserError with every problem: corpora and checkpoints that are not there, a tokenizer that cannot be read
// or has more tokens than the model, a run's folder that cannot be written.
void check_files(const config::Config& config);

// Says in one line of the log which keys have no effect on so many ranks, or because of a --set.
void warn_of_idle_keys(const config::Config& config, int64_t ranks, int64_t here);

// What weights, gradients, optimizer states and activations of so many ranks need alone. Throws UserError with
// ExitCode::infeasible where that is more memory than the machine has left.
plan::MemoryNeed check_memory(const config::Config& config, int64_t ranks = 1, int64_t here = 1);

}  // namespace terrace::train
