// Makes the list of every stage and gives its instructions the times of the machine.
#include "terrace/plan/time/simulated_step.h"

#include "terrace/schedule/pipeline/pipeline.h"

namespace terrace::plan {

SimulatedStep::SimulatedStep(const PlannedRun& planned, const Target& on)
    : run(planned), target(on), costs(planned, on.machine, on.software, on.block_products) {
  const std::vector<schedule::Instructions> pipeline = schedule::instructions(run.pipeline);
  for (int64_t stage = 0; stage < run.placement.stages; ++stage) {
    lists.push_back(
        planned_list(run, pipeline[static_cast<size_t>(stage)], run.pipeline.micro_batches, stage, target.software));
  }
  using Instruction = schedule::StepInstruction;
  simulation = schedule::simulate_step(
      lists, {.seconds = [&](int64_t stage, const Instruction& one) { return costs.seconds(stage, one); },
              .link = [&](int64_t stage, const Instruction& one) { return costs.link(stage, one); },
              .num_links = costs.num_links(),
              .beside_calls = target.machine.device.computing_beside_calls});
}

}  // namespace terrace::plan
