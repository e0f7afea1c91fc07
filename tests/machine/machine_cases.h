// A small valid description of a machine that the tests change line by line.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/machine/machine.h"

namespace terrace::machine {

// Ten nodes of four packages of two devices; each node has four links of 200 Gb/s.
inline const std::string valid_toml = R"(name = "ours"
about = "Ten nodes"
node_failure_time = "500 h"
[device]
name = "a GPU"
memory = "64 GB"
reserved = "1.5 GiB"
memory_bandwidth = "1.6 TB/s"
compute_units = 100
tile_start = 64
attention = 0.5
kernel_time = "2 us"
launch_time = "2.5 us"
power = "560 W"
[device.bf16]
peak = "191.5 TFLOP/s"
achievable = "150 TFLOP/s"
[[device.tiles]]
rows = 256
columns = 128
efficiency = 1
[[device.tiles]]
rows = 64
columns = 32
efficiency = 0.5
[[tiers]]
name = "pair"
devices = 2
link_bandwidth = "100 GB/s"
latency = "1 us"
[[tiers]]
name = "node"
devices = 8
link_bandwidth = "50 GB/s"
devices_per_link = 0.5
latency = "2 us"
[[tiers]]
name = "network"
devices = 80
link_bandwidth = "200 Gb/s"
devices_per_link = 2
latency = "5 us"
[storage]
node_bandwidth = "5 GB/s"
total_bandwidth = "20 GB/s"
)";

// The valid description with lines replaced; a replaced line without text leaves an empty one, so that the numbers of
// the other lines stay.
inline std::string with(const std::vector<std::pair<std::string, std::string>>& lines) {
  std::string toml = valid_toml;
  for (const auto& [line, replacement] : lines) {
    const size_t place = toml.find(line + "\n");
    TERRACE_CHECK(place != std::string::npos, "the description has no line {}", line);
    toml.replace(place, line.size(), replacement);
  }
  return toml;
}

// The error of parse(); "" if it accepts the text.
inline std::string complaint(const std::string& toml) {
  try {
    parse(toml, "ours.toml");
    return "";
  } catch (const UserError& error) {
    return error.what();
  }
}

}  // namespace terrace::machine
