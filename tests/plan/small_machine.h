// A machine with round figures, for times that are worked out by hand.
#pragma once

#include "terrace/machine/machine.h"

namespace terrace::plan {

// Devices with two compute units and tiles of 4 x 4, 1000 FLOP/s in every type and 100 bytes/s of memory bandwidth; two
// devices a pair, two pairs a node.
inline machine::Machine small_machine() {
  machine::Machine machine;
  machine.name = "small";
  machine.device.name = "small device";
  machine.device.memory_bytes = 1e12;
  machine.device.memory_bandwidth = 100;
  machine.device.products = {machine::ComputeRate{2000, 1000}, machine::ComputeRate{2000, 1000},
                             machine::ComputeRate{2000, 1000}};
  machine.device.compute_units = 2;
  machine.device.tiles = {{.rows = 4, .columns = 4, .efficiency = 1}};
  machine.tiers = {
      {.name = "pair", .devices = 2, .link_bandwidth = 10, .devices_per_link = 1, .latency_seconds = 0},
      {.name = "node", .devices = 4, .link_bandwidth = 10, .devices_per_link = 1, .latency_seconds = 0},
      {.name = "network", .devices = 64, .link_bandwidth = 5, .devices_per_link = 2, .latency_seconds = 0}};
  return machine;
}

// The small machine with a link of 10 bytes/s for each device, over which every call goes.
inline machine::Machine machine_with_one_tier() {
  machine::Machine machine = small_machine();
  machine.tiers = {
      {.name = "network", .devices = 64, .link_bandwidth = 10, .devices_per_link = 1, .latency_seconds = 0}};
  return machine;
}

// The small machine without limits by memory or links: only products and attention take time.
inline machine::Machine computing_machine() {
  machine::Machine machine = small_machine();
  machine.device.memory_bandwidth = 1e30;
  for (machine::Tier& tier : machine.tiers) tier.link_bandwidth = 1e30;
  return machine;
}

}  // namespace terrace::plan
