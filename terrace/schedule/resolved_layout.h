// The layout of a run on its ranks: what [layout] comes to on so many ranks, computed once and passed on to all that
// divide by it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "terrace/base/context_places.h"
#include "terrace/config/config.h"
#include "terrace/mesh/mesh.h"
#include "terrace/mesh/shards.h"
#include "terrace/schedule/partition.h"
#include "terrace/schedule/pipeline/placement.h"
#include "terrace/schedule/step/step.h"
#include "terrace/schedule/unit_table.h"

namespace terrace::schedule {

class ResolvedLayout {
 public:
  // `partition` is that of the model for this layout. Throws UserError if the groups of `layout` do not fit the mesh.
  ResolvedLayout(const config::LayoutConfig& layout, const mesh::Mesh& mesh,
                 std::shared_ptr<const Partition> partition);

  const Partition& partition() const { return *partition_; }
  // The movements that the groups of all parameters need together.
  Movements movements(const config::LayoutConfig& layout) const;
  // Sets the places and the route of the configuration's context ranks, of the routes that it allows the first where it
  // names none.
  void cut_positions(const config::Config& config);

  mesh::Mesh mesh;
  mesh::ShardSizes sizes;                        // of the groups of sharded data parallelism
  std::optional<mesh::ShardSizes> expert_sizes;  // of those of experts; none: every rank has all experts of its layers
  ContextPlaces context;  // where layout.context cuts the positions of samples; of one rank where it does not
  config::ContextRoute context_route = config::ContextRoute::ring;  // never automatic
  Placement placement;
  std::vector<StageSegments> stages;

 private:
  std::shared_ptr<const Partition> partition_;  // shared, since a search has many layouts of one partition
};

// The layout of a model with these units. Throws UserError if the layout fits neither the ranks nor the model.
ResolvedLayout resolved_layout(const config::LayoutConfig& layout, const UnitTable& units, int64_t ranks,
                               int64_t ranks_per_node);

// The layout of a configuration's model. Throws UserError also where train.recompute would have no effect.
ResolvedLayout resolved_layout(const config::Config& config, const UnitTable& units, int64_t ranks,
                               int64_t ranks_per_node);

}  // namespace terrace::schedule
