// Measures the machine with progress, for subcommands whose ranks are connected.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <string>
#include <vector>

#include "terrace/comm/comm.h"
#include "terrace/machine/machine.h"

namespace terrace::cli {

struct MachineMeasurement {
  std::string name;
  bool quick = false;
  std::vector<at::ScalarType> types;
};

// Called by all ranks together; the first one shows the progress.
machine::Machine measure_machine(comm::World& world, const at::Device& device, const MachineMeasurement& measurement);

}  // namespace terrace::cli
