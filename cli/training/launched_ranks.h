// Connects a subcommand with the other processes that mpirun or srun started.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "terrace/comm/comm.h"
#include "terrace/comm/mpi/mpi.h"
#include "terrace/config/config.h"

namespace terrace::cli {

// The configuration and the connected processes, once all of them know that no process found a mistake.
struct LaunchedRanks {
  config::Config config;
  // Both are null if no launcher has started this process.
  std::shared_ptr<comm::MpiLibrary> library = {};
  std::unique_ptr<comm::World> world = {};

  bool launched() const { return library != nullptr; }
  bool is_reporting_rank() const { return world == nullptr || world->rank() == 0; }
};

// Reads the configuration and connects to the other processes of the launch, if any. If one of them finds a mistake,
// all throw UserError, with text on one alone. `threads` is the number after --ranks, or 0 or 1 if --ranks was not
// given.
LaunchedRanks load_and_connect(const std::string& config, const std::vector<std::string>& overrides, int64_t threads);

// Does what load_and_connect() does; an error about the configuration has the problems with the files that it names
// too, as far as a run with this --resume reads them.
LaunchedRanks load_for_check_and_connect(const std::string& config, const std::vector<std::string>& overrides,
                                         int64_t threads, const std::string& resume);

// Connects to the other processes for a subcommand without a configuration; the result has default settings.
LaunchedRanks connect(int64_t threads);

// Throws UserError on all processes of a launch, with text on the first alone, if they read different configurations or
// are different programs. (run::run_training compares both, and more, itself.)
void check_same_configuration(LaunchedRanks& ranks);

}  // namespace terrace::cli
