// Compares what a run reads and writes with what the storage gives.
#pragma once

#include <string>

#include "terrace/base/text/json.h"
#include "terrace/plan/planned_run.h"
#include "terrace/plan/target.h"
#include "terrace/plan/time/run_cost.h"

namespace terrace::plan {

// Bytes of the samples of a step. The ranks of a node read a sample once for each of the two stages of a pipeline that
// need it, the one with the inputs and the one with the loss, since the system keeps what one of them has read; nodes
// read for themselves.
struct StepReads {
  double all = 0;   // of all nodes
  double node = 0;  // the most of one node
};
// Nothing for a family that does not know the bytes of a sample.
StepReads step_reads(const PlannedRun& run);

struct StorageNeed {
  StepReads reads;
  bool is_staged = false;  // data.stage is set: nodes read copies on their own disks
  double step_seconds = 0;
  double read_seconds = 0;  // that the storage takes to give the data of a step; 0: it is not stated
  double checkpoint_bytes = 0;
  double checkpoint_interval_seconds = 0;  // 0: there is none before the end
  double read_share = 0, write_share = 0;  // of the storage's rate, on average; 0: not stated or not needed

  // Whether steps wait for their data.
  bool exceeds_storage() const { return !is_staged && read_seconds > step_seconds; }
};
StorageNeed storage_need(const PlannedRun& run, const RunCost& cost, double step_seconds, const Target& target);

// The keys: step_read_bytes, node_read_bytes, read_seconds, read_share, write_share, staged, exceeds_storage.
Json json_of(const StorageNeed& need);
// A line with both shares, and a warning where steps wait for data; "" if nothing is known.
std::string text_of(const StorageNeed& need, const Target& target);

}  // namespace terrace::plan
