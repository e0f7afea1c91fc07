// Derives the parts of a run from its configuration.
#include "terrace/plan/planned_run.h"

#include <utility>

#include "terrace/models/cost/family.h"
#include "terrace/plan/memory_need.h"
#include "terrace/plan/rank_share.h"

namespace terrace::plan {

// Flat buffers are padded to pieces of this many elements, see docs/sharding.md.
constexpr int64_t piece_elements = 1024;

PlannedRun::PlannedRun(const config::Config& of, int64_t ranks, int64_t ranks_per_node,
                       std::shared_ptr<const schedule::UnitTable> table_of)
    : config(of),
      mesh(mesh_of(of.layout, ranks, ranks_per_node)),
      sizes(mesh::shard_sizes(of.layout, mesh)),
      shared_table(table_of ? std::move(table_of)
                            : std::make_shared<const schedule::UnitTable>(
                                  models::unit_table(of, unit_table_options(of, mesh.size("data"))))),
      pipeline(pipeline_of(of, mesh.size("data"))),
      placement(schedule::placement(pipeline)),
      partition(schedule::partition(table(), of.layout)) {
  for (int64_t stage = 0; stage < placement.stages; ++stage) {
    stages.push_back(schedule::stage_segments(partition, placement, stage));
  }
}

int64_t PlannedRun::elements(int64_t segment) const {
  int64_t sum = 0;
  for (const auto& parameter : schedule::segment_parameters(table(), partition.segment(segment))) {
    sum += schedule::elements_on_rank(parameter.mark, config.layout.tensor);
  }
  return sum;
}

int64_t PlannedRun::padded_elements(int64_t segment) const {
  return mesh::padded_size(elements(segment), sizes.ranks, piece_elements);
}

int64_t PlannedRun::stage_elements(int64_t stage) const {
  int64_t sum = 0;
  for (const int64_t segment : stages.at(static_cast<size_t>(stage)).held) sum += elements(segment);
  return sum;
}

const std::vector<int64_t>& PlannedRun::chunk(int64_t stage, int64_t chunk) const {
  return stages.at(static_cast<size_t>(stage)).chunks.at(static_cast<size_t>(chunk));
}

}  // namespace terrace::plan
