// The critical path of a step: the chain of computations and transfers that each began when the one before it ended,
// from the step's end back to its beginning. What is not on it may take longer without making the step longer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "terrace/schedule/step/step_times.h"

namespace terrace::plan {

// The part of a path that work of one kind takes on one stage.
struct PathShare {
  int64_t stage = 0;
  std::string kind;  // as schedule::drawn_as() names it: "backward", "weight gradient"; or "transfer of GROUP"
  double seconds = 0;
  double share = 0;  // of the step

  bool operator==(const PathShare&) const = default;
};

struct CriticalPath {
  double seconds = 0;                  // of the step
  std::vector<PathShare> shares = {};  // longest first; their sum is the step, but for times in which nothing was found
};

// `simulation` is that of the lists, one for each stage.
CriticalPath critical_path(const std::vector<schedule::StepInstructions>& lists,
                           const schedule::StepSimulation& simulation);

// "22% of the step is stage 3's weight gradient".
std::string text_of(const PathShare& share);

}  // namespace terrace::plan
