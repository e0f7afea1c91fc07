// Gives a calibration the share of memory of each rank and a progress bar.
#include "cli/training/machine_measurement.h"

#include <cstdint>
#include <optional>

#include "terrace/base/progress.h"
#include "terrace/measure/calibrate.h"
#include "terrace/observe/memory.h"
#include "terrace/train/device.h"

namespace terrace::cli {

machine::Machine measure_machine(comm::World& world, const at::Device& device, const MachineMeasurement& measurement) {
  constexpr uint64_t parts = 1000;
  std::optional<Progress> progress;
  if (world.rank() == 0) progress.emplace("measuring this machine", parts);
  measure::CalibrationOptions options{.quick = measurement.quick, .name = measurement.name, .types = measurement.types};
  options.memory_bytes =
      device.is_cpu() ? static_cast<double>(observe::available_bytes()) / static_cast<double>(world.ranks_per_node())
                      : static_cast<double>(train::available_bytes(device));
  options.progress = [&](double share, const std::string& what) {
    if (progress) progress->update(static_cast<uint64_t>(share * parts), what);
  };
  machine::Machine machine = measure::calibrate(world, device, options);
  if (progress) progress->clear();
  return machine;
}

}  // namespace terrace::cli
