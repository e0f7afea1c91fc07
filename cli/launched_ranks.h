// The processes that mpirun or srun started this one with, as subcommands meet them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "terrace/comm/comm.h"
#include "terrace/comm/mpi/mpi.h"
#include "terrace/config/config.h"

namespace terrace::cli {

// What the processes of the launch read from their command lines, once all of them know that it is right.
struct LaunchedRanks {
  config::Config config;
  // Where this process stands alone there is neither.
  std::shared_ptr<comm::MpiLibrary> library = {};
  std::unique_ptr<comm::World> world = {};

  bool launched() const { return library != nullptr; }
  bool is_reporting_rank() const { return world == nullptr || world->rank() == 0; }
};

// Reads the configuration and meets the other processes of the launch, if there are any. Throws UserError on all of
// them where one finds a mistake, with text on one alone. `threads`: what --ranks asks for, 0 or 1 where it is left
// out.
LaunchedRanks load_and_meet(const std::string& config, const std::vector<std::string>& overrides, int64_t threads);

// Throws UserError on all processes of a launch where they read different configurations or are different programs,
// with text on the first alone. (train::run compares these and more by itself.)
void check_same_configuration(LaunchedRanks& ranks);

// Whether this process is the one of its launch that says what is wrong with a command line that all of them have.
bool is_reporting_process();

}  // namespace terrace::cli
