// The complete list of what one rank does in a training step: the computations and sends of its pipeline stage, and
// every gather, release, reduction, the norm, the update and the publishing of updated weights, segment by segment.
//
// It is a pure function of the stage's instructions, the segments on the stage, the groups W, G and O of sharded data
// parallelism (docs/sharding.md) and the number of segments that are gathered ahead. train::Executor executes it and
// knows no other order; whatever counts memory or predicts a step's time reads the same list.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "terrace/mesh/shards.h"
#include "terrace/schedule/instruction.h"
#include "terrace/schedule/partition.h"

namespace terrace::schedule {

// The collectives of sharded data parallelism; their groups are those of mesh::ShardPlace.
enum class Movement {
  gather_weights,    // all-gather of W parts, before a segment's weights are used
  reduce,            // reduce-scatter of a micro-batch's gradient, from the whole to the part that stays
  reduce_across,     // reduce-scatter from the G part to the O part, after the last micro-batch
  reduce_replicas,   // all-reduce of the O part over the ranks that hold the same one, likewise
  gather_gradients,  // all-gather instead of the two before, where gradients are summed over all ranks at once
  publish,           // all-gather of updated O parts to W parts
};

const char* to_string(Movement movement);

// One thing that a rank does. Those that begin_* return at once and go on beside what follows; the matching end_*
// waits.
struct StepInstruction {
  enum class Kind {
    // Computations of one segment for one micro-batch.
    forward,
    loss,             // of the model's last segment: forward and, in a training step, backward at once
    backward,         // gradients of the segment's input and of its weights
    input_gradient,   // of its input alone
    weight_gradient,  // of its weights, some time after
    // Between stages, for one chunk, as in Instruction.
    send_activation,
    receive_activation,
    send_gradient,
    receive_gradient,
    // Of one segment's parameters.
    begin_movement,     // gather_weights takes memory for the whole segment's weights
    end_movement,       // reduce gives the whole segment's gradient back
    release,            // gives the whole segment's weights back
    allocate_gradient,  // takes memory for the whole segment's gradient, which is zero
    // Once, after the last backward. All sends have left by then.
    finish_gradients,  // sums over stages and tensor ranks that hold the same parameters
    norm,              // of all gradients; may find that the update is to be left out, on all ranks
    update,
  };
  Kind kind;
  int64_t micro_batch = -1;                      // -1: of the whole step
  int64_t chunk = -1;                            // of computations and of what passes between stages
  int64_t segment = -1;                          // in the model; -1: of the whole chunk or stage
  int64_t peer = -1;                             // the other stage of sends and receives
  Movement movement = Movement::gather_weights;  // begin_movement, end_movement
  bool accumulates = false;                      // reduce: adds to what earlier micro-batches left
  bool for_backward = false;                     // gather_weights: the use that it is for

  bool operator==(const StepInstruction&) const = default;
};

using StepInstructions = std::vector<StepInstruction>;

// "F3 segment 2", "begin gather weights of segment 2", "release weights of segment 2", "send activation 3 to 1",
// "norm".
std::string to_string(const StepInstruction& instruction);

// Which movements the groups need.
struct Movements {
  bool gathers = false;                   // weights are cut
  bool reduces_each = false;              // a micro-batch's gradient leaves before the next one's begins
  std::vector<Movement> after_last = {};  // further movements of a gradient after the last micro-batch, in order
  bool publishes = false;
  int64_t prefetch = 1;  // uses of segments whose weights are gathered ahead
};

Movements movements_of(const mesh::ShardSizes& sizes, bool deterministic, int64_t prefetch = 1);

// The list of a training step for one stage's instructions, with so many micro-batches.
StepInstructions training_step(const Instructions& stage, int64_t micro_batches, const StageSegments& segments,
                               const Movements& movements);

// The list of one micro-batch's loss without gradients. `before` and `after` of each chunk: the stage that has the part
// of the model before and after it; -1: none, or this stage itself.
struct Neighbours {
  int64_t before = -1, after = -1;
};
std::vector<Neighbours> neighbours(const Placement& placement, int64_t stage);
StepInstructions evaluation(const StageSegments& segments, const std::vector<Neighbours>& chunks,
                            const Movements& movements);

}  // namespace terrace::schedule
