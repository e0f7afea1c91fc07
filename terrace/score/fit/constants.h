// The figures of a machine's description that the times of runs can set, each multiplied by a factor.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "terrace/config/quantity.h"
#include "terrace/machine/machine.h"

namespace terrace::score {

struct Constant {
  std::string key = {};  // as in messages about the file: "device.bf16.achievable", "tiers.node.link_bandwidth"
  // The standard deviation of the factor's logarithm before any run is known: how wrong a description may be.
  double doubt = 0;
  std::function<double(const machine::Machine&)> value = {};
  // Multiplies the figure, and those that say the same of other runs. A figure stays within its bounds.
  std::function<void(machine::Machine&, double)> scale = {};
  std::function<std::string(double)> text = {};  // a value with its unit, "105 TFLOP/s"
};

// The constants that the description states: rates of products by type, the share of attention, the bandwidth of the
// device's memory, the overheads of a kernel, the bandwidth and the latency of each tier, and the staging bandwidth.
std::vector<Constant> constants_of(const machine::Machine& machine);

}  // namespace terrace::score
