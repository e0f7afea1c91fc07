// The parts of a run that its memory and its times are computed from: mesh, groups, unit table, pipeline and segments.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "terrace/config/config.h"
#include "terrace/mesh/mesh.h"
#include "terrace/mesh/shards.h"
#include "terrace/schedule/partition.h"
#include "terrace/schedule/pipeline.h"
#include "terrace/schedule/unit_table.h"

namespace terrace::plan {

struct PlannedRun {
  // Throws UserError if the configuration does not fit the ranks, see rank_share.h. `table` is the configuration's unit
  // table if the caller has it.
  PlannedRun(const config::Config& config, int64_t ranks, int64_t ranks_per_node,
             std::shared_ptr<const schedule::UnitTable> table = nullptr);

  const schedule::UnitTable& table() const { return *shared_table; }  // of one micro-batch on one rank

  // Elements of the parameters of a segment on one tensor rank, and padded as in its flat buffer.
  int64_t elements(int64_t segment) const;
  int64_t padded_elements(int64_t segment) const;
  // Of all segments that a stage holds.
  int64_t stage_elements(int64_t stage) const;
  // The segments of a chunk, in order.
  const std::vector<int64_t>& chunk(int64_t stage, int64_t chunk) const;

  config::Config config;
  mesh::Mesh mesh;
  mesh::ShardSizes sizes;
  std::shared_ptr<const schedule::UnitTable> shared_table;
  schedule::Pipeline pipeline;
  schedule::Placement placement;
  schedule::Partition partition;
  std::vector<schedule::StageSegments> stages;
};

}  // namespace terrace::plan
