// Sharded data parallelism of any model: the collectives and the memory of each segment's weights and gradients. The
// list of schedule::training_step determines their order (docs/sharding.md). This code knows only a model's segments.
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
#include "terrace/schedule/step/step.h"

namespace terrace::parallel {

// Bytes of tensors that this rank holds, by purpose; docs/sharding.md has the formula.
struct StateBytes {
  int64_t weights = 0;           // this rank's parts, held permanently
  int64_t gathered_weights = 0;  // whole segments
  int64_t gradients = 0;         // this rank's parts, held permanently
  int64_t whole_gradients = 0;   // whole segments, from their backward to the end of their reduction
  int64_t feedback = 0;          // errors of quantized gradients, held permanently

  bool operator==(const StateBytes&) const = default;
};

// The errors of one reduction of a segment's gradient (ErrorFeedback::kept), which share memory with those in use.
struct KeptErrors {
  int64_t segment;
  int64_t flat;  // the number of the flat buffer in the segment, which has one flat buffer for each type of parameters
  schedule::Movement movement;
  at::Tensor codes;
};

// This rank's part of the weights of a flat buffer, with the parameters' pieces in it.
struct HeldWeights {
  int64_t segment;
  at::Tensor weights;
  std::vector<optim::ShardPiece> pieces;
};

class Sharded {
 public:
  // Moves the parameters of the stage's segments into flat buffers, one for each type in a segment, and others for
  // those of experts where ranks divide these. All arguments outlive the object, which uses the groups exclusively;
  // `experts` are those of such parameters, or null.
  Sharded(models::Model& model, const Stage& stage, DataGroups& groups, DataGroups* experts,
          const ShardingOptions& options);
  ~Sharded();

  // This rank's optimizer part of each flat buffer, in the order of the segments.
  std::vector<optim::Shard> shards() const;

  // This rank's part of the weights of each flat buffer, in the order of shards().
  std::vector<HeldWeights> held_weights() const;
  // From the next step on, takes a digest of gathered weights each time that they are released, or ends that.
  void watch_gathered(bool watches) { watches_gathered_ = watches; }
  // By segment: the digest of the digests that were taken in this step, in order; 0 where there are none.
  const std::vector<uint64_t>& gathered_digests() const { return gathered_digests_; }

  // Begins a step: zeroes the whole gradients that are held permanently. Gradients that are rounded at random draw from
  // (seed, step, segment, movement, data-parallel rank, element), which is the same on every tensor rank.
  void begin_step(uint64_t seed, int64_t step);

  // Execute the instructions of schedule::StepInstruction with the same names on one segment. A movement within a group
  // of one rank is complete at once.
  void begin(const schedule::StepInstruction& instruction);
  void end(const schedule::StepInstruction& instruction);
  void release(int64_t segment);
  void allocate_gradient(int64_t segment);
  // Adds the gradients that autograd accumulated to the segment's gradient, after a computation of weight gradients.
  void collect_gradient(int64_t segment);

  // Begins to gather the weights of all segments after their optimizer parts were written outside of a step.
  void publish();
  // Waits for the gathers of publish().
  void finish_update();

  // Completes `optimizer_part` [n], a tensor over the optimizer part of a flat buffer of which this rank filled only
  // its own elements, with the elements of the other ranks that hold the same part. `shard` is one of shards().
  void spread(const optim::Shard& shard, const at::Tensor& optimizer_part, const char* what);

  // The errors of quantized gradients that this rank keeps with error feedback, in the order of the segments.
  std::vector<KeptErrors> kept_errors() const;
  // Sets them to zero, after a step whose gradients are not used.
  void forget_errors();
  // Multiplies them by a power of two, where the gradients of the next step are multiplied by it too.
  void scale_errors(double factor);

  const StateBytes& bytes() const { return held_; }
  // The peak of each figure so far.
  const StateBytes& peak_bytes() const { return peak_; }

 private:
  struct Flat;
  struct Segment;

  // A segment that this rank holds and that has parameters.
  Segment& segment(int64_t number);
  // The collective of the segment's next reduction in this step.
  Collective reduction(schedule::Movement movement, int64_t segment, Flat& flat);
  void begin(const schedule::StepInstruction& instruction, Flat& flat);
  void end(const schedule::StepInstruction& instruction, Flat& flat);
  PendingCollective gather(const Flat& flat, int64_t segment, bool for_backward);
  PendingCollective reduce(Flat& flat, int64_t segment, bool accumulates);
  // Take and release the memory of a whole segment and count it.
  void take(const at::Tensor& whole, int64_t StateBytes::*category);
  void give_back(const at::Tensor& whole, int64_t StateBytes::*category);

  DataGroups& groups_;
  DataGroups* const experts_;  // null: no parameters are those of experts
  ShardingOptions options_;
  std::vector<Segment> segments_;
  PhiloxKey rounding_key_ = {};  // of the seed and the step
  bool watches_gathered_ = false;
  std::vector<uint64_t> gathered_digests_;
  StateBytes held_, peak_;
};

}  // namespace terrace::parallel
