// Sharded data parallelism of any model: the collectives and the memory of each segment's weights and gradients. When
// they come is said by schedule::training_step. Knows of a model only its segments. docs/sharding.md says what moves
// when.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "terrace/models/model.h"
#include "terrace/optim/shard.h"
#include "terrace/parallel/collective.h"
#include "terrace/parallel/groups.h"
#include "terrace/parallel/sharded_segment.h"
#include "terrace/parallel/sharding_options.h"
#include "terrace/parallel/stage.h"
#include "terrace/schedule/step.h"

namespace terrace::parallel {

// Bytes of tensors that this rank holds, by what they are for; docs/sharding.md has the formula.
struct StateBytes {
  int64_t weights = 0;           // parts that stay
  int64_t gathered_weights = 0;  // whole segments
  int64_t gradients = 0;         // parts that stay
  int64_t whole_gradients = 0;   // whole segments, from their backward until they are reduced

  bool operator==(const StateBytes&) const = default;
};

class Sharded {
 public:
  // Takes over the parameters of the segments that the stage has; all outlive it. `groups` serve no one else meanwhile.
  Sharded(models::Model& model, const Stage& stage, DataGroups& groups, const ShardingOptions& options);
  ~Sharded();

  // The optimizer's part of each segment with parameters, in the order of the segments.
  std::vector<optim::Shard> shards() const;

  // At the beginning of a step: gradients that stay whole are zero.
  void begin_step();

  // The movements and the memory of one segment's parameters, as the instructions of schedule::StepInstruction of the
  // same names say. A movement that is not needed is complete at once.
  void begin(int64_t segment, schedule::Movement movement, bool accumulates, const char* phase);
  void end(int64_t segment, schedule::Movement movement, bool accumulates);
  void release(int64_t segment);
  void allocate_gradient(int64_t segment);
  // After a computation of weight gradients: those that autograd has are added to the gradient's memory.
  void collect_gradient(int64_t segment);

  // Starts to gather the updated weights of all segments, after the optimizer has written its parts, outside of a step.
  void publish();
  // Waits for that.
  void finish_update();

  // [n] of the optimizer's part of a segment, of which each rank filled the elements that it alone answers for: gets
  // those of the other ranks that hold the same part.
  void spread(const at::Tensor& optimizer_part, const char* what);

  const StateBytes& bytes() const { return held_; }
  // The most of each so far.
  const StateBytes& peak_bytes() const { return peak_; }

 private:
  struct Segment;

  const ShardedSegment& flat(int64_t segment) const;
  Collective collective(schedule::Movement movement) const { return collective_of(movement, groups_, options_); }
  PendingCollective gather(int64_t segment, const char* phase);
  PendingCollective reduce(int64_t segment, bool accumulates);
  // Memory of a whole segment, counted.
  void take(const at::Tensor& whole, int64_t StateBytes::*category);
  void give_back(const at::Tensor& whole, int64_t StateBytes::*category);

  DataGroups& groups_;
  ShardingOptions options_;
  std::vector<Segment> segments_;
  StateBytes held_, peak_;
};

}  // namespace terrace::parallel
