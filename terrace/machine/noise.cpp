// Checks the pairs of figures of a machine's [noise].
#include "terrace/machine/noise.h"

namespace terrace::machine {

std::string pause_problem(const Noise& noise) {
  constexpr double most_share = 0.1;
  const auto text = [](double seconds) { return config::quantity_text(seconds, config::Measure::seconds); };
  if (noise.has_pauses() != (noise.pause_seconds > 0)) {
    return noise.has_pauses() ? "is missing, but pause_every is given; add the length of a pause, such as \"50 ms\""
                              : "needs pause_every, the mean time between two pauses of a device, such as \"60 s\"";
  }
  if (noise.pause_seconds <= most_share * noise.pause_every_seconds) return "";
  return fmt::format("is more than a tenth of pause_every, \"{}\"; use at most \"{}\"", text(noise.pause_every_seconds),
                     text(most_share * noise.pause_every_seconds));
}

std::string slow_devices_problem(const Noise& noise) {
  if (noise.has_slow_devices() == (noise.slow_by > 0)) return "";
  return noise.has_slow_devices() ? "is missing, but slow_devices is given; add how much longer they compute, such as "
                                    "0.1 for a tenth"
                                  : "needs slow_devices, the share of the devices that are slow, such as 0.001";
}

}  // namespace terrace::machine
