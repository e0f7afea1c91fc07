// Counts the calls of an outer update as sums of fp32 gradients over the replicas in the type of the differences.
#include "terrace/plan/time/outer_update.h"

#include <algorithm>
#include <vector>

#include "terrace/plan/memory/movement_memory.h"
#include "terrace/plan/time/movement_time.h"

namespace terrace::plan {
namespace {

using schedule::Hop;
using schedule::Movement;

// Passes over fp32 numbers: the difference reads two and writes one, its mean reads and writes one, momentum, rate and
// common weights read two and write one each, and the copy reads and writes one.
constexpr double passes = 16;

config::Config config_of_update(config::Config config) {
  config.layout.reduce_type = config.layout.outer_type;
  config.layout.node_type = config::NodeType::as_others;
  config.layout.error_feedback = false;
  config.train.gradient_type = config::Precision::fp32;
  return config;
}

// The padded elements of each flat buffer of the stage. Copies that make steps by themselves divide no experts.
std::vector<int64_t> flat_buffers(const PlannedRun& run, int64_t stage) {
  std::vector<int64_t> sizes;
  for (const int64_t segment : run.stages.at(static_cast<size_t>(stage)).held) {
    for (const PlannedFlat& flat : run.flats(segment)) sizes.push_back(flat.padded);
  }
  return sizes;
}

}  // namespace

OuterUpdate outer_update(const PlannedRun& run, int64_t stage, const machine::Machine& machine) {
  OuterUpdate update;
  if (!run.sizes.has_local_copies()) return update;
  const config::Config config = config_of_update(run.config);
  const std::vector<Algorithm> algorithms = {Algorithm::ring, Algorithm::tree};
  const MovementTimes times(config, run.mesh, run.sizes, machine, algorithms);
  for (const int64_t padded : flat_buffers(run, stage)) {
    const MovementTime sum = times.of(Movement::reduce_replicas, Hop::whole, padded);
    const double own = static_cast<double>(padded) / static_cast<double>(run.sizes.optimizer);
    update.moving_seconds += sum.seconds;
    update.seconds += sum.seconds + sum.coding + passes * 4 * own / machine.device.memory_bandwidth;
    update.bytes += sum.bytes;
  }
  return update;
}

int64_t outer_update_bytes(const PlannedRun& run, int64_t stage) {
  if (!run.sizes.has_local_copies()) return 0;
  PlannedRun update = run;
  update.config = config_of_update(run.config);
  int64_t most = 0;
  for (const int64_t padded : flat_buffers(run, stage)) {
    const CallMemory memory = call_memory(
        update, {.kind = schedule::StepInstruction::Kind::begin_movement, .movement = Movement::reduce_replicas},
        PlannedFlat{.padded = padded});
    most = std::max({most, memory.beginning, memory.moving, memory.ending});
  }
  return most;
}

}  // namespace terrace::plan
