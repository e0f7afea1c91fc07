// Simulates the lists of an evaluation with the times of a machine.
#include "terrace/plan/time/evaluation_time.h"

#include <vector>

#include "terrace/plan/prediction.h"
#include "terrace/plan/time/predicted_costs.h"
#include "terrace/schedule/step/step_times.h"

namespace terrace::plan {

double evaluation_round_seconds(const config::Config& config, const Target& target) {
  const PlannedRun run = planned_run(config, target);
  const PredictedCosts costs(run, target.machine, target.software, target.block_products);
  const schedule::Movements movements = run.movements(run.config.layout);
  std::vector<schedule::StepInstructions> lists;
  for (int64_t stage = 0; stage < run.placement.stages; ++stage) {
    lists.push_back(schedule::evaluation(run.stages[static_cast<size_t>(stage)],
                                         schedule::neighbours(run.placement, stage), movements));
  }
  using Instruction = schedule::StepInstruction;
  return schedule::simulate_step(
             lists,
             {.seconds = [&](int64_t stage, const Instruction& one) { return costs.evaluation_seconds(stage, one); },
              .link = [&](int64_t stage, const Instruction& one) { return costs.link(stage, one); },
              .num_links = costs.num_links(),
              .beside_calls = target.machine.device.computing_beside_calls})
      .seconds;
}

}  // namespace terrace::plan
