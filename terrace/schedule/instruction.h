// One list of instructions a stage describes a training step: the trainer executes it, and whatever counts or predicts
// a step reads the same lists.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace terrace::schedule {

// One thing that a stage does, for one micro-batch and one of the stage's chunks (parts of the model, see placement.h).
//
// How a list is executed: in order, by one rank of the stage.
// - A computation (forward, backward, input_gradient, weight_gradient) waits for the tensor from another stage that it
//   needs, if any, and occupies the rank. The forward of the model's first part takes the batch, that of the last part
//   ends in the loss.
// - send_* stands behind the computation that made the tensor, and starts a nonblocking send.
// - receive_* posts a nonblocking receive into a buffer of its own, at least one computation before the one that takes
//   the tensor, where there is one before it. So data move while the stage computes.
// - A send may be waited for as soon as it is started, or later: validate() proves that even a send that waits at once,
//   until its receive is posted, never ends in a deadlock. Its tensor must be left alone until then.
// - Between two stages, tensors of both kinds travel in one order that both lists have: the order of the sends on one
//   is that of the receives on the other. No tags are needed.
// - Tensors between two parts on the same stage are passed without an instruction.
// - optimizer_step is last. Clipping by the norm of all gradients needs every stage's, so no stage begins it before all
//   have come to it: a barrier, which the zero-bubble schedules keep too.
struct Instruction {
  enum class Kind {
    forward,
    backward,         // gradients of input and weights together
    input_gradient,   // "B" of the zero-bubble papers; the inputs of the weights are kept
    weight_gradient,  // "W", some time after input_gradient
    send_activation,
    receive_activation,
    send_gradient,  // with respect to the input of the chunk
    receive_gradient,
    optimizer_step,
  };
  Kind kind;
  int64_t micro_batch = 0;  // optimizer_step: 0
  int64_t chunk = 0;        // that computes, made what is sent, or takes what is received; optimizer_step: 0
  int64_t peer = -1;        // sends and receives: the other stage

  bool operator==(const Instruction&) const = default;
};

using Instructions = std::vector<Instruction>;

bool is_computation(Instruction::Kind kind);  // forward, backward, input_gradient, weight_gradient
bool is_send(Instruction::Kind kind);
bool is_receive(Instruction::Kind kind);

// "F3", "B3" (backward), "I3" (input gradient), "W3", "F3.1" in chunk 1, "send activation 3 to 1",
// "receive gradient 3.1 from 2", "step".
std::string to_string(const Instruction& instruction);

}  // namespace terrace::schedule
