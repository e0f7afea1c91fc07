// Runs a whole training as the program does: checks, resuming, training with its hooks, and the last checkpoint.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "terrace/base/error.h"
#include "terrace/comm/comm.h"
#include "terrace/config/config.h"
#include "terrace/ops/products/product_choice.h"
#include "terrace/run/hooks/hooks.h"
#include "terrace/train/trainer.h"

namespace terrace::run {

struct RunOptions {
  int64_t ranks = 1;             // ranks as threads of this process
  comm::World* world = nullptr;  // or the world that a launcher made, of which this process is one rank
  std::string resume = {};  // "": a new run; "auto": the newest checkpoint of the run's folder, if any; else a path
  std::filesystem::path config_file = {};  // the file that named checkpoint.folder, if any
  std::string resume_command = {};  // starts this run again, without its --resume; shown in errors about damaged files
  // Measures how fast the device computes. Without it metrics have no MFU. A resumed run keeps its peak unless the
  // processor or the number of ranks or threads has changed.
  std::function<train::Peak(const at::Device&, at::ScalarType)> measure_peak = {};
  // Chooses the products of a new run for the classes of its weights, apart from weights smaller than 256 by 256;
  // called on the first rank, for all ranks. Without it all products are those of our kernels.
  std::function<ops::ProductsByClass(const at::Device&, at::ScalarType, const std::set<ops::WeightClass>&)>
      choose_products = {};
  // Measures the machine with the ranks of the run for observe.machine = "measure"; called by all ranks together. The
  // result is that of the first rank.
  std::function<machine::Machine(comm::World&, const at::Device&, at::ScalarType)> measure_machine = {};
  // The bytes that this rank can still take of its device's memory, for layout.recompute_layers = "fit"; called on each
  // rank before its model is built and after some of the first steps. Without it the device's or the machine's memory
  // is read, of which each rank of the machine has an equal share.
  std::function<double(const comm::World&)> memory_left = {};
  // Called on each rank before its first step, on the thread that trains: adds hooks of your own behind those of a run.
  std::function<void(train::Trainer&)> prepare = {};
  // Wraps the world of each rank where ranks are threads, for tests and rehearsals. The world that it is given outlives
  // the result. Null: nothing is wrapped.
  std::function<std::unique_ptr<comm::World>(comm::World&)> decorate = {};
  std::string build_facts = {};  // lines about this build of the program, for the folder of a crash
  int64_t stop_after = 0;        // the step after which the run stops, to be continued later; 0: its last one
  bool only_starts = false;      // for rehearsals: each rank ends before its first step, and nothing is saved
  int64_t profile_steps = 0;     // 0: no profile
  std::function<void(const Profile&)> report_profile = {};  // called with the profile
  // Called on the first rank of several with what the ranks' steps went to, before the profile.
  std::function<void(const observe::ProfiledRanks&)> report_ranks = {};
  // The time from which train.time_limit counts.
  std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now();
};

struct RunResult {
  std::filesystem::path checkpoint = {};  // the last checkpoint of the run
  int64_t step = 0;
  bool finished = false;         // false: stopped before its last step, or in the evaluation after it
  std::string stop_reason = {};  // if it was stopped: "on request", or which limit was reached
};

// Trains until the configuration's steps are done, a stop is requested or train.time_limit is reached, and saves.
// Throws UserError before anything is built if files are missing, the folder belongs to another run or a process that
// is still alive, memory is short, or fewer steps are left than a profile needs. With a launcher the first rank makes
// these checks, and all ranks throw a Refusal. A CommError says which checkpoint to continue from. Where the run is to
// go back (train::Rewind), it begins again from its newest checkpoint in the same processes, as with --resume auto. A
// fourth time in a row to the same checkpoint because of corruption is a CommError, an eleventh time because of spikes
// a std::runtime_error.
RunResult run_training(const config::Config& config, const RunOptions& options);

}  // namespace terrace::run
