// Finds the messages of computations and transfers.
#include "terrace/schedule/pipeline/message.h"

namespace terrace::schedule {
namespace {

using Kind = Instruction::Kind;

// The tensor between the instruction's virtual stage and the next one (`above`) or the previous one.
std::optional<Message> boundary_message(const Instruction& instruction, const Placement& placement, int64_t stage,
                                        bool gradient, bool above) {
  const int64_t virtual_stage = placement.virtual_stage(stage, instruction.chunk);
  const int64_t lower = above ? virtual_stage : virtual_stage - 1;
  if (lower < 0 || lower + 1 >= placement.virtual_stages()) return std::nullopt;
  return Message{gradient, instruction.micro_batch, lower};
}

}  // namespace

std::optional<Message> taken(const Instruction& computation, const Placement& placement, int64_t stage) {
  if (computation.kind == Kind::forward) return boundary_message(computation, placement, stage, false, false);
  if (computation.kind == Kind::backward || computation.kind == Kind::input_gradient) {
    return boundary_message(computation, placement, stage, true, true);
  }
  return std::nullopt;
}

std::optional<Message> made(const Instruction& computation, const Placement& placement, int64_t stage) {
  if (computation.kind == Kind::forward) return boundary_message(computation, placement, stage, false, true);
  if (computation.kind == Kind::backward || computation.kind == Kind::input_gradient) {
    return boundary_message(computation, placement, stage, true, false);
  }
  return std::nullopt;
}

std::optional<Message> carried(const Instruction& transfer, const Placement& placement, int64_t stage) {
  const bool gradient = transfer.kind == Kind::send_gradient || transfer.kind == Kind::receive_gradient;
  return boundary_message(transfer, placement, stage, gradient, is_send(transfer.kind) != gradient);
}

std::optional<Message> between_stages(std::optional<Message> message, const Placement& placement) {
  if (message && message->from(placement) == message->to(placement)) return std::nullopt;
  return message;
}

size_t num_messages(const Placement& placement, int64_t micro_batches) {
  return static_cast<size_t>(2 * (placement.virtual_stages() - 1) * micro_batches);
}

size_t number_of(const Message& message, const Placement& placement, int64_t micro_batches) {
  const int64_t boundary = message.lower + (message.gradient ? placement.virtual_stages() - 1 : 0);
  return static_cast<size_t>(boundary * micro_batches + message.micro_batch);
}

}  // namespace terrace::schedule
