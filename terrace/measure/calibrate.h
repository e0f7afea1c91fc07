// Measures a machine with the ranks of a run, and describes it as a planner reads it.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <functional>
#include <string>
#include <vector>

#include "terrace/comm/comm.h"
#include "terrace/machine/machine.h"

namespace terrace::measure {

struct CalibrationOptions {
  bool quick = false;  // fewer shapes and rounds: half a minute instead of three
  std::string name = "this machine";
  double memory_bytes = 0;  // of one rank's share of the machine's memory, or of its GPU
  double host_bytes = 0;    // of the machine's memory; 0: not stated
  std::vector<at::ScalarType> types = {at::kFloat, at::kBFloat16, at::kHalf};
  // Called with the share that is done and with what is measured next.
  std::function<void(double share, const std::string& what)> progress = {};
};

// Called by all ranks of the world together; a rank computes with the set number of threads. All ranks measure at the
// same time, so that they share memory and links as in training. They measure matrix products of our kernels by shape
// and type, attention, norms, copies, the time of an operation without work, how unequal the times of equal products
// are, and the collectives among the ranks of a machine and among machines. Every rank gets the same description.
// Storage, power and failures are not measured.
machine::Machine calibrate(comm::World& world, const at::Device& device, const CalibrationOptions& options);

}  // namespace terrace::measure
