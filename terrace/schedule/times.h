// When each instruction of a step starts and ends, by the lists alone: an event loop over all stages.
#pragma once

#include <functional>
#include <vector>

#include "terrace/schedule/pipeline.h"

namespace terrace::schedule {

struct Costs {
  // Seconds for which an instruction occupies its stage, of any kind.
  std::function<double(int64_t stage, const Instruction&)> seconds;
  // From the end of a send, or of its receive's posting if that is later, until the tensor is there.
  double transfer_seconds = 0.0;
};

// Every chunk alike; sends, receives and the optimizer step take no time.
Costs balanced(const ChunkCosts& costs, double transfer_seconds = 0.0);

struct TimeInterval {
  double start, end;
  bool operator==(const TimeInterval&) const = default;
};

struct StepTimes {
  std::vector<std::vector<TimeInterval>> intervals;  // by stage and instruction
  double seconds = 0.0;                              // until the last stage is done
  double busy_seconds = 0.0;                         // that instructions took, all stages together

  double bubble_share() const;  // the share of stages * seconds in which nothing ran
};

// Instructions of a stage follow each other as soon as they can: a computation waits for what it takes, the optimizer
// step for all stages (the barrier that clipping needs). The lists must be valid.
StepTimes simulate_times(const std::vector<Instructions>& lists, const Placement& placement, const Costs& costs);

}  // namespace terrace::schedule
