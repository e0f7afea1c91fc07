// Measures the machine with progress, for subcommands whose ranks are connected.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cli/training/launched_ranks.h"
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

// Who measures: the processes of a launch, or so many threads of this process.
struct MeasuringRanks {
  int64_t ranks = 1;            // of this process, without a launch
  int64_t threads = 0;          // of each rank; 0: its share of the cores
  std::string device = "auto";  // as train::choose_device() takes it
};

// Calls `measure` on all of these ranks at the same time, each with its device. An exception ends all.
void on_measuring_ranks(const MeasuringRanks& who, const LaunchedRanks& launched,
                        const std::function<void(comm::World& world, const at::Device& device)>& measure);

}  // namespace terrace::cli
