// Tables of the time that each operation took in the profiled steps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "terrace/base/text/json_fwd.h"
#include "terrace/observe/trace.h"

namespace terrace::observe {

// All calls of one operation. Time, FLOPs and bytes exclude those of operations inside of it, so that rows can be
// added.
struct OperationRow {
  std::string name;
  int64_t calls = 0;
  double seconds = 0;
  double flops = 0;
  double bytes = 0;
};

struct OperationTable {
  int64_t steps = 0;
  double seconds = 0;                     // elapsed time of the steps
  std::vector<OperationRow> rows;         // most time first
  double between_seconds = 0;             // time of the steps outside of all operations
  std::vector<OperationRow> phases = {};  // in the order they first began: all of their time, FLOPs and bytes

  // Keys: steps, seconds, between_seconds, operations and phases (lists of name, calls, seconds, share, flops, bytes,
  // flops_per_second, bytes_per_second).
  Json json() const;
  // The phases and the first `most` rows as lines.
  std::string text(size_t most = 15) const;
};

// Counts the operations of the first rank's lanes: those inside of spans named step_phase and, on lanes without phases
// (a GPU's backward pass has its own thread), those that run during a step.
OperationTable count_operations(const Trace& trace);

}  // namespace terrace::observe
