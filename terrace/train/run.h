// A whole training run as the program makes it: checks, resuming, hooks, the end.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>

#include "terrace/base/error.h"
#include "terrace/comm/comm.h"
#include "terrace/config/config.h"
#include "terrace/train/hooks/hooks.h"
#include "terrace/train/trainer.h"

namespace terrace::train {

struct RunOptions {
  int64_t ranks = 1;             // as threads of this process
  comm::World* world = nullptr;  // or the world that a launcher made, of which this process is one rank
  std::string resume = {};  // "": a new run; "auto": the newest checkpoint of the run's folder, if any; else a path
  std::filesystem::path config_file = {};  // that named checkpoint.folder, where a file did
  std::string resume_command = {};  // that starts this run again, but for its --resume; errors about damage offer it
  // How fast the device computes. Without it metrics have no MFU, and a new run takes the products of its own kernels.
  std::function<Peak(const at::Device&, at::ScalarType)> measure_peak = {};
  int64_t profile_steps = 0;                                // 0: none
  std::function<void(const Profile&)> report_profile = {};  // called where there is one
  // From when train.time_limit counts.
  std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now();
};

struct RunResult {
  std::filesystem::path checkpoint;  // the last one
  int64_t step = 0;
  bool finished = false;    // false: stopped before its last step, or in the evaluation after it
  std::string stop_reason;  // where it was stopped: "on request", or which limit was reached
};

// Trains until the configuration's steps are done, a stop is requested or train.time_limit is reached, and saves.
// Throws UserError before anything is built where files are missing, the folder belongs to another run or a process
// that is still alive, memory is short, or fewer steps are left than a profile needs. With a launcher the first rank
// looks, all throw a Refusal, and those of the others have no text. A CommError says which checkpoint to continue from.
RunResult run(const config::Config& config, const RunOptions& options);

// How ranks communicate as the configuration asks for; train/report_request.h counts its report requests.
comm::WorldOptions world_options(const config::Config& config);

}  // namespace terrace::train
