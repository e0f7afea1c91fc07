// Everything that the ranks of a run must have in common before they train together.
#pragma once

#include "terrace/config/config.h"
#include "terrace/train/agreement.h"

namespace terrace::train {

// Every key of the resolved configuration, the program and the kernels that it computes with on this machine.
StartFacts program_facts(const config::Config& config);

// What the files that the configuration names hold: corpora and tokenizer as data::fingerprint has them, and the
// manifest of train.initial_weights. A file that cannot be read is a fact too: the error of a rank that alone lacks it.
StartFacts file_facts(const config::Config& config);

}  // namespace terrace::train
