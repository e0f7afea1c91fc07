// Compares the time of all movements of a segment of average size, and of a stage with each route of its attention.
#include "terrace/plan/time/route.h"

#include <algorithm>
#include <vector>

#include "terrace/plan/time/movement_time.h"
#include "terrace/plan/time/predicted_costs.h"
#include "terrace/schedule/description.h"

namespace terrace::plan {
namespace {

using config::RailsGather;
using config::Routing;
using schedule::Movement;

// The seconds of all movements of a segment of average size in a step.
double movement_seconds(const PlannedRun& run, const mesh::ShardSizes& sizes, const machine::Machine& machine,
                        RailsGather gather) {
  const std::vector<Algorithm> algorithms = {Algorithm::ring, Algorithm::tree};
  config::Config config = run.config;
  config.layout.rails_gather = gather;
  const MovementTimes times(config, run.mesh, sizes, machine, algorithms);
  int64_t elements = 0;
  for (int64_t stage = 0; stage < run.placement.stages; ++stage) elements += run.stage_elements(stage);
  elements /= std::ssize(run.partition().segments);
  const schedule::Movements movements = schedule::movements_of(sizes, run.config.layout.deterministic);
  const int64_t padded = mesh::padded_size(elements, sizes.ranks, mesh::piece_elements);
  double sum = 0;
  const auto add = [&](Movement movement, int64_t count) {
    for (const schedule::Hop hop : movements.hops(movement)) {
      const MovementTime time = times.of(movement, hop, padded);
      sum += static_cast<double>(count) * (time.seconds + time.coding);
    }
  };
  if (movements.gathers) add(Movement::gather_weights, 2 * run.pipeline.micro_batches);
  if (movements.reduces_each) add(Movement::reduce, run.pipeline.micro_batches);
  for (const Movement movement : movements.after_last) add(movement, 1);
  if (movements.publishes) add(Movement::publish, 1);
  return sum;
}

// The gather between nodes that the configuration gives or, with `automatic`, the faster one.
RailsGather faster_gather(const PlannedRun& run, const mesh::ShardSizes& rails, const machine::Machine& machine) {
  const RailsGather given = run.config.layout.rails_gather;
  if (given != RailsGather::automatic) return given;
  const auto seconds = [&](RailsGather gather) { return movement_seconds(run, rails, machine, gather); };
  return seconds(RailsGather::doubling) < seconds(RailsGather::library) ? RailsGather::doubling : RailsGather::library;
}

}  // namespace

config::ContextRoute chosen_context_route(const PlannedRun& run, const machine::Machine& machine,
                                          const machine::Software& software) {
  const config::ContextRoute given = run.config.layout.context_route;
  if (run.config.layout.context == 1 || given != config::ContextRoute::automatic) return run.context_route;
  config::ContextRoute fastest = run.context_route;
  double least = 0;
  for (const config::ContextRoute route : schedule::description_of(run.config).context_work(run.config).routes) {
    config::Config config = run.config;
    config.layout.context_route = route;
    const PlannedRun tried(config, run.mesh.size(), run.mesh.topology().ranks_per_node);
    const PredictedCosts costs(tried, machine, software);
    double seconds = 0;
    for (int64_t stage = 0; stage < tried.placement.stages; ++stage) {
      seconds = std::max(seconds, costs.computation(stage).total());
    }
    if (least > 0 && seconds >= least) continue;
    least = seconds;
    fastest = route;
  }
  return fastest;
}

Routing chosen_route(const PlannedRun& run, const machine::Machine& machine) {
  const config::LayoutConfig& layout = run.config.layout;
  if (layout.route != Routing::automatic) return layout.route;
  if (run.mesh.size() <= run.mesh.topology().ranks_per_node) return Routing::flat;
  const std::optional<mesh::ShardSizes> rails = mesh::rails_sizes(run.sizes, run.mesh);
  if (!rails || schedule::movements_of(*rails, layout.deterministic).two_hops.empty()) return Routing::flat;
  const double flat_seconds = movement_seconds(run, run.sizes, machine, RailsGather::library);
  const double rails_seconds = movement_seconds(run, *rails, machine, faster_gather(run, *rails, machine));
  return rails_seconds < flat_seconds ? Routing::rails : Routing::flat;
}

RailsGather chosen_rails_gather(const PlannedRun& run, const machine::Machine& machine) {
  const schedule::Movements movements = schedule::movements_of(run.sizes, run.config.layout.deterministic);
  const bool gathers = movements.has_two_hops(Movement::gather_weights) || movements.has_two_hops(Movement::publish);
  return gathers ? faster_gather(run, run.sizes, machine) : run.config.layout.rails_gather;
}

}  // namespace terrace::plan
