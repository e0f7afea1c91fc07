// The machine, software and devices for which a run is predicted.
#pragma once

#include <algorithm>
#include <cstdint>

#include "terrace/config/config.h"
#include "terrace/machine/machine.h"
#include "terrace/machine/software.h"

namespace terrace::plan {

struct Target {
  machine::Machine machine;
  machine::Software software;
  int64_t devices = 1;  // as many ranks

  // The number of nodes of which devices are used; as many as devices if the machine has no nodes.
  int64_t nodes() const { return (devices + machine.devices_of("node") - 1) / machine.devices_of("node"); }
  // All devices if they are fewer than those of a node.
  int64_t ranks_per_node() const { return std::min(devices, machine.devices_of("node")); }
};

// Throws UserError if the machine has fewer devices, or states no rates of products in the run's precision.
void check_target(const config::Config& config, const Target& target);

}  // namespace terrace::plan
