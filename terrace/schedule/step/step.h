// Makes the complete list of instructions of one rank for a training step: the computations and transfers of its
// pipeline stage, and every gather, release and reduction of a segment, the norm, the update and the publishing of
// updated weights.
//
// The list is a pure function of the stage's instructions, the segments on the stage, the groups W, G and O of sharded
// data parallelism (docs/sharding.md) and the number of segments that are gathered ahead. train::Executor executes the
// list in this order, and memory and times of a step are computed from the same list.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "terrace/config/config.h"
#include "terrace/mesh/shards.h"
#include "terrace/schedule/partition.h"
#include "terrace/schedule/step/instruction.h"

namespace terrace::schedule {

// The collectives of sharded data parallelism; mesh::ShardPlace has their groups.
enum class Movement {
  gather_weights,    // all-gather of the W parts of a segment's weights, before their use
  reduce,            // reduce-scatter of a micro-batch's whole gradient to its G parts
  reduce_across,     // reduce-scatter of a G part to its O parts, after the last micro-batch
  reduce_replicas,   // all-reduce of an O part over the ranks that hold it, after the last micro-batch
  gather_gradients,  // all-gather in place of both, if `reduce` sums over all ranks at once
  publish,           // all-gather of updated O parts to W parts
};

const char* to_string(Movement movement);

// The calls of a movement: one among all ranks of its group, or by rails (mesh::Hops) two in succession. Gathers go
// between the nodes first, since each rank then receives from the network only what no rank beside it receives;
// reductions go inside the nodes first, and send sums over the network.
enum class Hop { whole, node, rails };

// One operation of a rank. begin_movement starts a collective, which proceeds during the instructions that follow;
// end_movement waits for its end.
struct StepInstruction {
  enum class Kind {
    // Computations of one segment for one micro-batch.
    forward,
    loss,             // the model's last segment: forward and, in a training step, also backward
    backward,         // gradients of the segment's input and of its weights
    input_gradient,   // gradient of the segment's input only
    weight_gradient,  // gradients of the segment's weights, some time after input_gradient
    // Transfers between stages, for one chunk, as in Instruction.
    send_activation,
    receive_activation,
    send_gradient,
    receive_gradient,
    // Movements and memory of one segment's parameters.
    begin_movement,     // gather_weights takes memory for the whole segment's weights
    end_movement,       // reduce frees the whole segment's gradient
    release,            // frees the whole segment's weights
    allocate_gradient,  // takes memory for the whole segment's gradient, which counts as zero
    // The end of a step: each once, after the last backward; all sends are complete.
    finish_gradients,  // sums over stages and tensor ranks that hold the same parameters
    norm,              // the norm of all gradients; may decide, on all ranks, that the update is skipped
    update,
  };
  Kind kind;
  int64_t micro_batch = -1;                      // -1: belongs to the whole step
  int64_t chunk = -1;                            // of computations, sends and receives
  int64_t segment = -1;                          // its number in the model; -1: belongs to the whole chunk or stage
  int64_t peer = -1;                             // the other stage of sends and receives
  Movement movement = Movement::gather_weights;  // begin_movement, end_movement
  bool accumulates = false;                      // reduce: adds to the sum of the earlier micro-batches
  bool for_backward = false;                     // gather_weights: the weights are for a backward
  Hop hop = Hop::whole;                          // begin_movement, end_movement

  bool operator==(const StepInstruction&) const = default;
};

using StepInstructions = std::vector<StepInstruction>;

// The group of ranks that a movement or a hop of it is among, by its name in docs/cost_model.md.
const char* group_of(Movement movement, Hop hop = Hop::whole);

// Whether the beginning or end of a movement is that of its first or only call, of its last or only call.
bool is_first_hop(const StepInstruction& movement);
bool is_last_hop(const StepInstruction& movement);

bool is_send(StepInstruction::Kind kind);
bool is_receive(StepInstruction::Kind kind);

// The kind of bar that a picture of a step draws for the instruction: "forward", "loss", "backward", "input gradient",
// "weight gradient", "transfer", "update", "memory", and "wait" for receives and the ends of movements.
const char* drawn_as(StepInstruction::Kind kind);

// "F3 segment 2", "begin gather weights of segment 2", "release weights of segment 2", "send activation 3 to 1",
// "norm".
std::string to_string(const StepInstruction& instruction);

// The movements that the groups need.
struct Movements {
  bool gathers = false;                   // weights are sharded
  bool reduces_each = false;              // gradients are reduced after each micro-batch
  std::vector<Movement> after_last = {};  // further movements of a gradient after the last micro-batch, in order
  bool publishes = false;
  int64_t prefetch = 1;                 // how many uses of segments ahead weights are gathered
  std::vector<Movement> two_hops = {};  // movements that go by rails

  bool has(Movement movement) const;
  // The movements that sum gradients of several ranks, in order.
  std::vector<Movement> reductions() const;
  bool has_two_hops(Movement movement) const;
  // The hops of a movement, in order.
  std::vector<Hop> hops(Movement movement) const;
  // The number of uses ahead at which a gather begins: the first of two hops begins one use before the second.
  int64_t uses_ahead() const;
};

// The elements that each rank brings into a movement that sums gradients, of a segment with `padded` elements.
int64_t reduced_elements(Movement reduction, const mesh::ShardSizes& sizes, int64_t padded);

// Whether the call of a movement is among ranks of one node for which layout.node_type holds.
bool is_inside_typed_node(Movement movement, Hop hop, const mesh::ShardSizes& sizes, bool deterministic);

// The type in which the call of a movement sends its values.
config::WireType wire_type(const config::LayoutConfig& layout, const mesh::ShardSizes& sizes, Movement movement,
                           Hop hop);

// Whether the errors of a reduction are kept: those of rounding the rank's own gradient, with layout.error_feedback.
bool feeds_back(const config::LayoutConfig& layout, const mesh::ShardSizes& sizes, Movement reduction);

// The reductions whose errors are kept, in order.
std::vector<Movement> fed_back_reductions(const config::LayoutConfig& layout, const mesh::ShardSizes& sizes);

Movements movements_of(const mesh::ShardSizes& sizes, bool deterministic, int64_t prefetch = 1);

// The movements that either of two kinds of parameters needs, with the hops of the first one.
Movements united(Movements first, const Movements& second);

// The list of a training step for the instructions of one stage.
StepInstructions training_step(const Instructions& stage, int64_t micro_batches, const StageSegments& segments,
                               const Movements& movements);

// The stages of the virtual stages before and after a chunk; -1: none, or this stage itself.
struct AdjacentStages {
  int64_t before = -1, after = -1;
};
std::vector<AdjacentStages> neighbours(const Placement& placement, int64_t stage);
// The list of one micro-batch's loss without gradients.
StepInstructions evaluation(const StageSegments& segments, const std::vector<AdjacentStages>& chunks,
                            const Movements& movements);

}  // namespace terrace::schedule
