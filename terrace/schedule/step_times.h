// When each instruction of the complete lists starts and ends: a stage computes on one lane, and what begins a movement
// or sends goes on beside it, on the lane of its link. What of the communication is hidden behind computation is a
// property of the lists and these durations alone.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "terrace/schedule/step.h"
#include "terrace/schedule/times.h"

namespace terrace::schedule {

struct StepCosts {
  // Seconds that an instruction occupies its lane: computations, finish_gradients, norm and update that of computation;
  // begin_movement and sends that of their link. Others take no time of their own.
  std::function<double(int64_t stage, const StepInstruction&)> seconds;
  // The link of what begins a movement or sends: 0 .. num_links - 1. What uses one link goes one after another.
  std::function<int64_t(int64_t stage, const StepInstruction&)> link;
  int64_t num_links = 1;
};

struct StageTimes {
  std::vector<TimeInterval> intervals;  // by instruction; of begin_movement and sends: on their link
  double busy_seconds = 0;              // of the lane of computation
  double stage_seconds = 0;             // that it waited for other stages
  // By link: of movements on it, and that computation waited for their ends.
  std::vector<double> moving_seconds, exposed_seconds;

  // The share of the movements' time that is hidden behind computation; 1 where there are none.
  double hidden_share() const;
};

struct StepSimulation {
  std::vector<StageTimes> stages;
  double seconds = 0;  // until every stage has done its list, and its movements have ended
};

// Ranks of one stage do the same at the same time, so one list a stage stands for all of them. The lists must be valid:
// those of training_step for the lists of one pipeline. All stages come to the norm together.
StepSimulation simulate_times(const std::vector<StepInstructions>& lists, const StepCosts& costs);

}  // namespace terrace::schedule
