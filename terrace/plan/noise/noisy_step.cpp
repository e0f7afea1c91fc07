// Makes the graph of a step, and divides the costs of noise.
#include "terrace/plan/noise/noisy_step.h"

#include "terrace/plan/noise/group_noise.h"

namespace terrace::plan {
namespace {

// The seconds of the step if every computation takes its mean time on groups of so many ranks.
double mean_seconds(const NoisyStep& step, int64_t ranks) {
  const GroupNoise group(step.noise, ranks);
  const double factor = group.mean_time();
  schedule::StepClocks clocks = schedule::StepClocks::of(step.graph);
  return schedule::seconds_of(step.graph, clocks, [&](const schedule::StepOperation& one) {
    double sum = 0;
    for (const double seconds : step.graph.computations_of(one)) {
      const GroupPauses pauses = group.pauses(seconds);
      sum += factor * seconds + pauses.number * pauses.seconds;
    }
    return sum;
  });
}

}  // namespace

NoisyStep noisy_step(const SimulatedStep& step) {
  using Instruction = schedule::StepInstruction;
  const schedule::StepCosts costs{
      .seconds = [&](int64_t stage, const Instruction& one) { return step.costs.seconds(stage, one); },
      .link = [&](int64_t stage, const Instruction& one) { return step.costs.link(stage, one); },
      .num_links = step.costs.num_links(),
      .beside_calls = step.target.machine.device.computing_beside_calls};
  return {.graph = schedule::step_graph(
              step.lists, costs, [&](int64_t, const Instruction& one) { return step.costs.computing_seconds(one); },
              step.simulation),
          .noise = step.target.machine.noise,
          .tensor_ranks = step.run.config.layout.tensor,
          .replicas = step.run.mesh.size("data"),
          .noiseless_seconds = step.simulation.seconds};
}

NoiseCosts noise_costs(const NoisyStep& step, double replica_seconds, double seconds) {
  const double alone = mean_seconds(step, 1), of_groups = mean_seconds(step, step.tensor_ranks);
  return {.own_seconds = alone - step.noiseless_seconds,
          .tensor_seconds = of_groups - alone,
          .stages_seconds = replica_seconds - of_groups,
          .replica_seconds = seconds - replica_seconds};
}

}  // namespace terrace::plan
