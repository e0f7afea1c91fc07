// terrace launch --run: trains now, on given nodes, and replaces nodes that are lost.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "terrace/launch/job.h"

namespace CLI {
class App;
}

namespace terrace::cli {

struct SupervisedLaunch {
  bool runs = false;
  std::string hosts, hostfile;
  double node_timeout = 10;  // seconds
};

void add_supervised_options(CLI::App& command, SupervisedLaunch& launch);

// Throws UserError where options do not go together.
void check_supervised(const SupervisedLaunch& launch, bool with_mpirun);

// Trains the job to its end, with its nodes and spares. Ends by UserError with the exit code of the run, unless it has
// made all its steps. `smaller` makes the job on fewer nodes.
void run_supervised(const SupervisedLaunch& launch, const launch::Job& job,
                    const std::function<launch::Job(int64_t nodes)>& smaller);

}  // namespace terrace::cli
