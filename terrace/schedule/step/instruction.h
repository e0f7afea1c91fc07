// Defines the instructions of a pipeline schedule. One list for each stage describes a training step: the trainer
// executes the lists, and the counts and predictions of a step's memory and time are made from the same lists.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace terrace::schedule {

// One operation of a stage, for one micro-batch and one of the stage's chunks (its virtual stages, see placement.h).
//
// Every rank of the stage executes the list in order.
// - A computation (forward, backward, input_gradient, weight_gradient) waits for the tensor that it needs from another
//   stage, if any, and occupies the rank. The forward of the first virtual stage takes the batch; the forward of the
//   last virtual stage ends in the loss.
// - send_* follows the computation that made the tensor and starts a nonblocking send.
// - receive_* posts a nonblocking receive into a buffer of its own. It comes at least one computation before the
//   computation that takes the tensor, if there is an earlier one, so that data move while the stage computes.
// - A send may be waited for at any time after its start: validate() checks that the lists do not deadlock even if
//   every send waits at once until its receive is posted. The tensor must not change until the send is complete.
// - Activations and gradients between two stages travel in a single order: one stage sends in the order in which the
//   other one receives. No tags are needed.
// - Tensors between two virtual stages of one stage are passed without an instruction.
// - optimizer_step is last. Clipping needs the norm of the gradients of all stages, so optimizer_step is a barrier of
//   all stages, in the zero-bubble schedules too.
struct Instruction {
  enum class Kind {
    forward,
    backward,         // gradients of input and weights together
    input_gradient,   // "B" of the zero-bubble papers; the inputs of the weights are kept
    weight_gradient,  // "W" of the zero-bubble papers, some time after input_gradient
    send_activation,
    receive_activation,
    send_gradient,  // with respect to the input of the chunk
    receive_gradient,
    optimizer_step,
  };
  Kind kind;
  int64_t micro_batch = 0;  // optimizer_step: 0
  int64_t chunk = 0;        // chunk that computes, made the sent tensor or takes the received one; optimizer_step: 0
  int64_t peer = -1;        // sends and receives: the other stage

  bool operator==(const Instruction&) const = default;
};

using Instructions = std::vector<Instruction>;

bool is_computation(Instruction::Kind kind);  // forward, backward, input_gradient, weight_gradient
bool is_send(Instruction::Kind kind);
bool is_receive(Instruction::Kind kind);

// One more than the largest number of a micro-batch in the lists.
int64_t num_micro_batches(const std::vector<Instructions>& lists);

// "F3", "B3" (backward), "I3" (input gradient), "W3", "F3.1" in chunk 1, "send activation 3 to 1",
// "receive gradient 3.1 from 2", "step".
std::string to_string(const Instruction& instruction);

}  // namespace terrace::schedule
