// Computes when each instruction of the complete lists starts and ends, and how much communication is hidden behind
// computation. Computations of a stage follow each other; movements and sends proceed at the same time on their links.
//
// Calls of one communicator follow each other, and calls of different communicators that use the same link of a stage
// share its rate equally while they are under way, as with every backend of comm/. Each group of movements is a
// communicator, and so are the sends to each other stage. A send uses the sender's link only.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "terrace/schedule/step/step.h"
#include "terrace/schedule/step/times.h"

namespace terrace::schedule {

struct StepCosts {
  // Seconds for which computations, finish_gradients, norm and update occupy the stage, and which begin_movement and
  // sends take with their link for themselves; of an end_movement, for which encoding and decoding its payloads occupy
  // the stage. Other instructions take no time of their own.
  std::function<double(int64_t stage, const StepInstruction&)> seconds;
  // The link of a begin_movement or send: 0 .. num_links - 1.
  std::function<int64_t(int64_t stage, const StepInstruction&)> link;
  int64_t num_links = 1;
  // How many times as long computations of a micro-batch take while a movement or send of their stage is under way.
  double beside_calls = 1;
};

struct StageTimes {
  std::vector<TimeInterval> intervals;  // by instruction; for begin_movement and sends: on their link
  double busy_seconds = 0;              // sum of the durations of computations
  double slowed_seconds = 0;            // that computations take longer beside calls, see StepCosts::beside_calls
  double stage_seconds = 0;             // of waiting for other stages
  // The part of stage_seconds that the stage would wait if no two communicators shared a link, in which case every
  // transfer takes its own time. The rest is queued_seconds(): the stage waits for tensors that come late because their
  // transfer, or one before it on any stage, shared its link.
  double bubble_seconds = 0;
  // Seconds by link: from the beginning to the end of the movements on the link, and those that computation waited for
  // their ends, both with encoding and decoding.
  std::vector<double> moving_seconds, exposed_seconds;

  double queued_seconds() const { return stage_seconds - bubble_seconds; }

  // The share of the movements' time that is hidden behind computation; 1 where there are none.
  double hidden_share() const;
};

struct StepSimulation {
  std::vector<StageTimes> stages;
  double seconds = 0;  // until every stage has completed its list and its movements have ended
};

// All ranks of a stage have the same list and the same times, so one list for each stage is enough. The lists must be
// those of training_step for one pipeline. The norm is a barrier of all stages.
StepSimulation simulate_step(const std::vector<StepInstructions>& lists, const StepCosts& costs);

}  // namespace terrace::schedule
