// Collects everything that the ranks of a run must have in common before they train together.
#pragma once

#include <cstdint>

#include "terrace/comm/comm.h"
#include "terrace/config/config.h"
#include "terrace/train/agreement.h"

namespace terrace::run {

// Every key of the resolved configuration, the program and the kernels that it computes with on this machine.
train::StartFacts program_facts(const config::Config& config);

// The content of the family's data that the configuration names, such as the fingerprints of datasets. The fact of a
// file that cannot be read is the error.
train::StartFacts file_facts(const config::Config& config);

// The facts about the manifest of train.initial_weights, which new runs alone read.
train::StartFacts initial_weights_facts(const config::Config& config);

struct RunOptions;

// The program and the options that decide how a run starts, without file_facts().
train::StartFacts start_facts(const config::Config& config, const RunOptions& options);

// Called by all ranks, in order. Throws a Refusal on every rank unless start_facts() and file_facts() are the same.
void check_same_start(comm::Comm& all, int64_t ranks_per_node, const config::Config& config, const RunOptions& options);

}  // namespace terrace::run
