// Compares the time of all movements of a segment of average size.
#include "terrace/plan/route.h"

#include <vector>

#include "terrace/plan/movement_time.h"

namespace terrace::plan {
namespace {

using config::Routing;
using schedule::Movement;

// Of all movements of a segment with so many parameters in a step.
double movement_seconds(const PlannedRun& run, const mesh::ShardSizes& sizes, int64_t elements,
                        const machine::Machine& machine) {
  const std::vector<Algorithm> algorithms = {Algorithm::ring, Algorithm::tree};
  const MovementTimes times(run.config, run.mesh, sizes, machine, algorithms);
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

}  // namespace

Routing chosen_route(const PlannedRun& run, const machine::Machine& machine) {
  const config::LayoutConfig& layout = run.config.layout;
  if (layout.route != Routing::automatic) return layout.route;
  if (run.mesh.size() <= run.mesh.topology().ranks_per_node) return Routing::flat;
  const std::optional<mesh::ShardSizes> rails = mesh::rails_sizes(run.sizes, run.mesh);
  if (!rails || schedule::movements_of(*rails, layout.deterministic).two_hops.empty()) return Routing::flat;
  int64_t elements = 0;
  for (int64_t stage = 0; stage < run.placement.stages; ++stage) elements += run.stage_elements(stage);
  const int64_t average = elements / std::ssize(run.partition().segments);
  const double flat_seconds = movement_seconds(run, run.sizes, average, machine);
  return movement_seconds(run, *rails, average, machine) < flat_seconds ? Routing::rails : Routing::flat;
}

}  // namespace terrace::plan
