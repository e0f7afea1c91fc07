// Checks a run without starting it, for terrace train --check.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/config/config.h"
#include "terrace/plan/memory/memory_need.h"
#include "terrace/run/run_training.h"

namespace terrace::run {

struct RunCheck {
  std::vector<std::string> problems = {};
  ExitCode code = ExitCode::done;  // bad_input, or infeasible if too little memory is the only problem
  int64_t ranks = 1;
  std::string device = {};                // "cpu" or "cuda"
  plan::MemoryNeed need = {};             // of the ranks that share a memory
  plan::MemoryNeed largest = {};          // of the largest rank
  double memory_bytes = 0;                // available for `need`; 0: unknown
  uint64_t samples = 0;                   // of one pass over the data; 0: unknown
  std::filesystem::path checkpoint = {};  // the checkpoint that the run continues from; empty: a new run
  int64_t steps_done = 0;
  // The tensors of train.initial_weights that are not taken as they are (InitialWeights::text); empty: none, or no new
  // run.
  std::string initial_weights = {};
};

// Makes every check of run_training() up to the first step: ranks, files and their contents, the machine's description,
// the checkpoint to begin with, its keys, data and tensors with their checksums, and memory. Collects all problems.
// Trains nothing and writes nothing. Whether another process trains in the folder is not checked. With a world all its
// ranks call it; then a Refusal is thrown if they differ, and the result is whole on the first rank only.
RunCheck check_run(const config::Config& config, const RunOptions& options);

}  // namespace terrace::run
