// Gives a calibration the share of memory of each rank and a progress bar.
#include "cli/training/machine_measurement.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "terrace/base/terminal/progress.h"
#include "terrace/comm/threads/threads.h"
#include "terrace/measure/calibrate.h"
#include "terrace/observe/memory.h"
#include "terrace/run/run_training.h"
#include "terrace/train/agreement.h"
#include "terrace/train/device.h"
#include "terrace/train/prepare_machine.h"
#include "terrace/train/trainer.h"
#include "terrace/train/world_options.h"

namespace terrace::cli {

machine::Machine measure_machine(comm::World& world, const at::Device& device, const MachineMeasurement& measurement) {
  constexpr uint64_t parts = 1000;
  std::optional<Progress> progress;
  if (world.rank() == 0) progress.emplace("measuring this machine", parts);
  measure::CalibrationOptions options{.quick = measurement.quick, .name = measurement.name, .types = measurement.types};
  options.host_bytes = static_cast<double>(observe::available_bytes());
  options.memory_bytes = device.is_cpu() ? options.host_bytes / static_cast<double>(world.ranks_per_node())
                                         : static_cast<double>(train::available_bytes(device));
  options.progress = [&](double share, const std::string& what) {
    if (progress) progress->update(static_cast<uint64_t>(share * parts), what);
  };
  machine::Machine machine = measure::calibrate(world, device, options);
  if (progress) progress->clear();
  return machine;
}

void on_measuring_ranks(const MeasuringRanks& who, const LaunchedRanks& launched,
                        const std::function<void(comm::World& world, const at::Device& device)>& measure) {
  if (launched.launched()) {
    comm::World& world = *launched.world;
    train::prepare_machine(who.threads > 0 ? who.threads : world.cores_per_rank());
    train::abort_on_error(world, [&] { measure(world, train::choose_device(who.device, world)); });
    return;
  }
  const at::Device device = train::choose_device_of_threads(who.device, who.ranks, "--device cpu");
  const int64_t share = std::max<int64_t>(1, train::choose_threads(0) / who.ranks);
  train::prepare_machine(who.threads > 0 ? who.threads : share);
  comm::run_threads(who.ranks, train::world_options(launched.config),
                    [&](comm::World& world) { measure(world, device); });
}

}  // namespace terrace::cli
