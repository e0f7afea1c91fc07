// A whole training run as the program makes it: checks, resuming, hooks, the end.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "terrace/config/config.h"
#include "terrace/train/trainer.h"

namespace terrace::train {

struct RunOptions {
  std::string resume;  // "": a new run; "auto": the newest checkpoint of the run's folder, if any; else a path
  std::function<Peak(const at::Device&, at::ScalarType)> measure_peak;
};

struct RunResult {
  std::filesystem::path checkpoint;  // the last one
  int64_t step = 0;
  bool finished = false;  // false: stopped on request
};

// Trains until the configuration's steps are done or a stop is requested, and saves. Throws UserError before anything
// is built where files are missing, the folder belongs to another run or a process that is still alive, or memory is
// short.
RunResult run(const config::Config& config, const RunOptions& options);

}  // namespace terrace::train
