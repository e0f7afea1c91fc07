// The memory of a node (machine::Host) that a run needs: for the copies of its states, and for the devices that compute
// in it.
#pragma once

#include <string>
#include <vector>

#include "terrace/base/text/json.h"
#include "terrace/plan/planned_run.h"
#include "terrace/plan/target.h"

namespace terrace::plan {

// Bytes on the node that needs most.
struct NodeMemory {
  double written = 0;  // copies that threads write from: of checkpoints beside training, and of copies in memory
  double files = 0;    // in checkpoint.memory_folder, of this node's states and of those of the node before it
  double devices = 0;  // of the node's devices with what they reserve, where Host::holds_devices

  double copies() const { return written + files; }
  double all() const { return copies() + devices; }
};

// Bytes of one rank of a pipeline stage.
struct RankBytes {
  double saved = 0;   // saved_bytes()
  double device = 0;  // what it needs of its device, with what the device reserves
};
NodeMemory node_memory(const PlannedRun& run, const std::vector<RankBytes>& by_stage, const machine::Host& host);

// Why the node's memory is too small, with the ways out; "" if it is not, or the machine does not state it.
std::string node_memory_reason(const NodeMemory& need, const PlannedRun& run, const Target& target);

// The keys: written_bytes, files_bytes, devices_bytes, bytes (of all), and of_bytes (null where it is not stated).
Json json_of(const NodeMemory& need, const Target& target);
// A line, and a warning where the files need more than half of the memory, which is what /dev/shm has where nobody set
// its size; "" for a run without copies.
std::string text_of(const NodeMemory& need, const config::Config& config, const Target& target);

}  // namespace terrace::plan
