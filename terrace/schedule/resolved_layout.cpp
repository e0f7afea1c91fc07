// Divides ranks and model as the layout says.
#include "terrace/schedule/resolved_layout.h"

#include <utility>

#include "terrace/mesh/experts.h"
#include "terrace/schedule/description.h"
#include "terrace/schedule/pipeline/pipeline.h"
#include "terrace/schedule/rank_share.h"

namespace terrace::schedule {

ResolvedLayout::ResolvedLayout(const config::LayoutConfig& layout, const mesh::Mesh& on,
                               std::shared_ptr<const Partition> partition)
    : mesh(on),
      sizes(mesh::shard_sizes(layout, on)),
      placement(schedule::placement(pipeline_of(layout, 1))),
      partition_(std::move(partition)) {
  for (int64_t stage = 0; stage < placement.stages; ++stage) {
    stages.push_back(stage_segments(*partition_, placement, stage));
  }
  if (layout.experts > 1) expert_sizes = mesh::expert_sizes(layout, sizes, mesh);
}

Movements ResolvedLayout::movements(const config::LayoutConfig& layout) const {
  const Movements dense = movements_of(sizes, layout.deterministic, layout.prefetch);
  return expert_sizes ? united(dense, movements_of(*expert_sizes, layout.deterministic)) : dense;
}

ResolvedLayout resolved_layout(const config::LayoutConfig& layout, const UnitTable& units, int64_t ranks,
                               int64_t ranks_per_node) {
  return {layout, mesh_of(layout, ranks, ranks_per_node), std::make_shared<const Partition>(partition(units, layout))};
}

ResolvedLayout resolved_layout(const config::Config& config, const UnitTable& units, int64_t ranks,
                               int64_t ranks_per_node) {
  ResolvedLayout resolved = resolved_layout(config.layout, units, ranks, ranks_per_node);
  check_recompute(resolved.partition(), config.train.recompute);
  resolved.cut_positions(config);
  return resolved;
}

void ResolvedLayout::cut_positions(const config::Config& config) {
  if (config.layout.context == 1) return;
  context = description_of(config).context_work(config).places;
  context_route = schedule::context_route(config);
}

}  // namespace terrace::schedule
