// The part of a model on one pipeline stage: the segments of the stage's chunks, and a copy of each segment on another
// stage whose weights they read (the embedding, for a head with tied weights).
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "terrace/comm/comm.h"
#include "terrace/models/model.h"
#include "terrace/optim/shard.h"
#include "terrace/schedule/partition.h"
#include "terrace/schedule/pipeline/pipeline.h"
#include "terrace/schedule/resolved_layout.h"

namespace terrace::parallel {

// The parameters and the buffers of all units of the segment, in order.
std::vector<nn::Parameter*> segment_parameters(models::Model& model, const schedule::Segment& segment);
std::vector<nn::Buffer*> segment_buffers(models::Model& model, const schedule::Segment& segment);

class Stage {
 public:
  // Frees the memory of parameters and buffers that this stage does not hold, and marks those of copies as counted
  // elsewhere. Collective: every rank of the world calls it. On an axis "pipeline" of size 1 the stage holds every
  // segment.
  Stage(models::Model& model, comm::World& world, const schedule::ResolvedLayout& layout);

  // The segments of the chunk.
  const schedule::NumberRange& segments(int64_t chunk) const {
    return partition_.virtual_stage(placement_.virtual_stage(stage_, chunk));
  }
  const schedule::Segment& segment(int64_t number) const { return partition_.segment(number); }
  // Whether this stage computes the loss.
  bool has_last() const;

  // The chunk of this stage that is the next or the previous virtual stage; -1: on another stage, or there is none.
  int64_t chunk_here_after(int64_t chunk) const { return chunk_with(placement_.virtual_stage(stage_, chunk) + 1); }
  int64_t chunk_here_before(int64_t chunk) const { return chunk_with(placement_.virtual_stage(stage_, chunk) - 1); }

  // The segments that this stage computes and holds.
  const schedule::StageSegments& own() const { return own_; }
  std::vector<nn::Parameter*> parameters() const;
  // The buffers of the units that this stage computes, which have memory on the model's device.
  std::vector<nn::Buffer*> buffers() const;

  int64_t number() const { return stage_; }
  const schedule::Placement& placement() const { return placement_; }
  const schedule::Partition& partition() const { return partition_; }
  comm::Comm& group() { return *group_; }
  comm::Comm& sharing() { return *sharing_; }

  // Whether another stage holds the segment too.
  bool is_shared(int64_t segment) const { return std::ranges::find(shared_, segment) != shared_.end(); }

  // Sums the gradients of segments that two stages hold. Called when the optimizer parts of the gradients are summed
  // over micro-batches and data-parallel ranks. `shards` are those of all segments in own().held.
  void sum_copies(const std::vector<optim::Shard>& shards);

 private:
  int64_t chunk_with(int64_t virtual_stage) const;

  models::Model& model_;
  schedule::Placement placement_;
  schedule::Partition partition_;
  int64_t stage_;
  schedule::StageSegments own_;
  std::vector<int64_t> shared_;  // segments that this stage and another one hold
  std::unique_ptr<comm::Comm> group_, sharing_;
};

}  // namespace terrace::parallel
