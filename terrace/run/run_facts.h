// Writes the files in a run's folder that describe it beside its metrics: run.json, and the configuration with every
// key.
#pragma once

#include "terrace/train/trainer.h"

namespace terrace::run {

// Writes both files into checkpoint.folder. Called on one rank.
void write_run_facts(train::Trainer& trainer);

}  // namespace terrace::run
