// One step of a run on a machine, simulated instruction by instruction.
#pragma once

#include <vector>

#include "terrace/plan/planned_run.h"
#include "terrace/plan/target.h"
#include "terrace/plan/time/predicted_costs.h"
#include "terrace/schedule/step/step_times.h"

namespace terrace::plan {

// All ranks of a pipeline stage do the same, so there is one list for each stage.
struct SimulatedStep {
  // `run` and `target` must outlive it.
  SimulatedStep(const PlannedRun& run, const Target& target);

  const PlannedRun& run;
  const Target& target;
  PredictedCosts costs;
  std::vector<schedule::StepInstructions> lists;  // by stage
  schedule::StepSimulation simulation;
};

}  // namespace terrace::plan
