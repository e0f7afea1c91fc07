// What one pipeline stage has of a model: the segments of its parts, and a copy of a segment whose matrix its head
// shares with the first stage.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "terrace/comm/comm.h"
#include "terrace/mesh/mesh.h"
#include "terrace/models/model.h"
#include "terrace/optim/shard.h"
#include "terrace/schedule/partition.h"
#include "terrace/schedule/pipeline.h"

namespace terrace::parallel {

// Of all units of the segment, in order.
std::vector<nn::Parameter*> segment_parameters(models::Model& model, const schedule::Segment& segment);

class Stage {
 public:
  // Frees the memory of parameters that are not this stage's; those of copies are marked as counted elsewhere. Every
  // rank of the world calls it at the same time. On an axis "pipeline" of size 1 every segment is here.
  Stage(models::Model& model, comm::World& world, const mesh::Mesh& mesh, const schedule::Placement& placement,
        const schedule::Partition& partition);

  // Of the chunk.
  const schedule::NumberRange& segments(int64_t chunk) const {
    return partition_.virtual_stage(placement_.virtual_stage(stage_, chunk));
  }
  const schedule::Segment& segment(int64_t number) const { return partition_.segment(number); }
  // Whether the loss is computed here.
  bool has_last() const;

  // The chunk of this stage with the next or the previous part of the model; -1: another stage has it, or none.
  int64_t chunk_here_after(int64_t chunk) const { return chunk_with(placement_.virtual_stage(stage_, chunk) + 1); }
  int64_t chunk_here_before(int64_t chunk) const { return chunk_with(placement_.virtual_stage(stage_, chunk) - 1); }

  // What is computed and held here.
  const schedule::StageSegments& own() const { return own_; }
  std::vector<nn::Parameter*> parameters() const;

  int64_t number() const { return stage_; }
  const schedule::Placement& placement() const { return placement_; }
  const schedule::Partition& partition() const { return partition_; }
  comm::Comm& group() { return *group_; }
  comm::Comm& sharing() { return *sharing_; }

  // Once the optimizer's parts of the gradients are summed over data and micro-batches: adds up those of segments that
  // two stages have. `shards` are those of own().held.
  void sum_copies(const std::vector<optim::Shard>& shards);

 private:
  int64_t chunk_with(int64_t virtual_stage) const;

  models::Model& model_;
  schedule::Placement placement_;
  schedule::Partition partition_;
  int64_t stage_;
  schedule::StageSegments own_;
  std::vector<int64_t> shared_;  // segments that this stage has and another one too
  std::unique_ptr<comm::Comm> group_, sharing_;
};

}  // namespace terrace::parallel
