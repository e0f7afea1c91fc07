// Classifies instructions and formats them as text.
#include "terrace/schedule/step/instruction.h"

#include <algorithm>

#include "terrace/base/error.h"

namespace terrace::schedule {

using Kind = Instruction::Kind;

bool is_computation(Kind kind) {
  return kind == Kind::forward || kind == Kind::backward || kind == Kind::input_gradient ||
         kind == Kind::weight_gradient;
}

bool is_send(Kind kind) { return kind == Kind::send_activation || kind == Kind::send_gradient; }

bool is_receive(Kind kind) { return kind == Kind::receive_activation || kind == Kind::receive_gradient; }

int64_t num_micro_batches(const std::vector<Instructions>& lists) {
  int64_t most = 0;
  for (const Instructions& list : lists) {
    for (const Instruction& instruction : list) most = std::max(most, instruction.micro_batch + 1);
  }
  return most;
}

std::string to_string(const Instruction& instruction) {
  const auto& [kind, micro_batch, chunk, peer] = instruction;
  const std::string which = chunk == 0 ? fmt::format("{}", micro_batch) : fmt::format("{}.{}", micro_batch, chunk);
  switch (kind) {
    case Kind::forward:
      return "F" + which;
    case Kind::backward:
      return "B" + which;
    case Kind::input_gradient:
      return "I" + which;
    case Kind::weight_gradient:
      return "W" + which;
    case Kind::send_activation:
      return fmt::format("send activation {} to {}", which, peer);
    case Kind::receive_activation:
      return fmt::format("receive activation {} from {}", which, peer);
    case Kind::send_gradient:
      return fmt::format("send gradient {} to {}", which, peer);
    case Kind::receive_gradient:
      return fmt::format("receive gradient {} from {}", which, peer);
    case Kind::optimizer_step:
      return "step";
  }
  return fmt::format("unknown kind {}", static_cast<int>(kind));
}

}  // namespace terrace::schedule
