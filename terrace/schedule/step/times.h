// Computes when each instruction of a step starts and ends: a discrete-event simulation of the lists of all stages.
#pragma once

#include <functional>
#include <vector>

#include "terrace/schedule/pipeline/pipeline.h"

namespace terrace::schedule {

struct ScheduleCosts {
  // Seconds for which an instruction of any kind occupies its stage.
  std::function<double(int64_t stage, const Instruction&)> seconds;
  // Seconds from the end of a send, or from the posting of its receive if that is later, to the arrival of the tensor.
  double transfer_seconds = 0.0;
};

// Costs that are the same for every chunk; sends, receives and the optimizer step take no time.
ScheduleCosts balanced(const ChunkCosts& costs, double transfer_seconds = 0.0);

struct TimeInterval {
  double start, end;
  bool operator==(const TimeInterval&) const = default;
};

struct ScheduleTimes {
  std::vector<std::vector<TimeInterval>> intervals;  // by stage and instruction
  double seconds = 0.0;                              // until the last stage has completed its list
  double busy_seconds = 0.0;                         // sum of the durations of all instructions

  double bubble_share() const;  // the share of stages * seconds in which no instruction ran
};

// Each instruction of a stage starts as soon as possible: a computation waits for the tensor that it takes, the
// optimizer step waits for all stages (the barrier that clipping needs). The lists must be valid.
ScheduleTimes simulate_schedule(const std::vector<Instructions>& lists, const Placement& placement,
                                const ScheduleCosts& costs);

}  // namespace terrace::schedule
