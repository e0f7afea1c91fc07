// Brings a checkpoint's model onto ranks without a run, for commands that use the model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "terrace/checkpoint/checkpoint.h"
#include "terrace/comm/comm.h"
#include "terrace/config/config.h"
#include "terrace/train/trainer.h"

namespace terrace::run {

struct CheckpointRequest {
  std::filesystem::path checkpoint;  // a checkpoint's folder, or a run's folder for its newest complete checkpoint
  int64_t ranks = 1;                 // as threads of this process
  comm::World* world = nullptr;      // or the world that a launcher made, of which this process is one rank
  int64_t threads = 0;               // of each rank; 0: the cores, divided among the ranks
  std::string device = "auto";
};

// The work that is done with the checkpoint.
struct CheckpointWork {
  std::string verb;  // for the log: "evaluates"
  // Changes the configuration, in particular to other data, and finds mistakes. Called once in each process, before
  // anything is built. Throws UserError with every problem.
  std::function<void(config::Config&, const checkpoint::Reader&)> configure;
  // Called on every rank with a trainer whose weights are not read yet (Trainer::load_weights).
  std::function<void(train::Trainer&, const checkpoint::Reader&, comm::World&)> run;
};

// If the layout of the run fits the ranks they divide the model in the same way, otherwise each rank has the whole
// model. Precision, kernels and micro-batch are those of the run. Takes as much memory as the weights and optimizer
// states of a run. Throws UserError with every problem; with a launcher, all ranks throw a Refusal.
void use_checkpoint(const CheckpointRequest& request, const CheckpointWork& work);

}  // namespace terrace::run
