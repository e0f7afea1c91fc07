// Describes how unequal the devices of a machine are, and how unequal the same computation of one device is from time
// to time. docs/machines.md explains every key of [noise].
#pragma once

#include <fmt/format.h>

#include <string>

#include "terrace/config/domain.h"
#include "terrace/config/quantity.h"

namespace terrace::machine {

// Each figure is 0 where the machine states none.
struct Noise {
  // Standard deviation of the time of one instruction of a micro-batch on one device, as a share of its mean.
  double instruction_spread = 0;
  // A device pauses once in `pause_every_seconds` of computation on average, for `pause_seconds`.
  double pause_every_seconds = 0, pause_seconds = 0;
  // Share of the devices that are slow, and how much longer they compute: 0.1 is a tenth longer.
  double slow_devices = 0, slow_by = 0;

  bool has_pauses() const { return pause_every_seconds > 0; }
  bool has_slow_devices() const { return slow_devices > 0; }
  bool is_stated() const { return *this != Noise{}; }
  bool operator==(const Noise&) const = default;
};

// The problem with `pause`: one of the pair is missing, or a device would pause more than a tenth of the time. "" if
// there is none.
std::string pause_problem(const Noise& noise);
// The problem with `slow_by` beside `slow_devices`; "" if there is none.
std::string slow_devices_problem(const Noise& noise);

template <typename Table>
void noise_keys(Table& table) {
  table.optional("instruction_spread", &Noise::instruction_spread, config::Real{.least = 0, .most = 0.3});
  table.optional("pause_every", &Noise::pause_every_seconds, config::Quantity{config::Measure::seconds, 1, 1e6});
  table.optional("pause", &Noise::pause_seconds, config::Quantity{config::Measure::seconds, 1e-6, 60});
  table.optional("slow_devices", &Noise::slow_devices, config::Real{.least = 0, .most = 0.5});
  table.optional("slow_by", &Noise::slow_by, config::Real{.least = 0, .most = 4});
  table.rule({"pause", "pause_every"}, pause_problem);
  table.rule({"slow_by", "slow_devices"}, slow_devices_problem);
}

}  // namespace terrace::machine
