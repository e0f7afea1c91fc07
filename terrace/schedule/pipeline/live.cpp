// Counts the tensors that a list keeps alive.
#include "terrace/schedule/pipeline/live.h"

#include <algorithm>
#include <set>
#include <utility>

namespace terrace::schedule {

using Kind = Instruction::Kind;

// The most memory is taken by as many tensors of the larger kind as possible; the rest of `together` is of the smaller
// kind.
int64_t Live::bytes(int64_t activation_bytes, int64_t weight_input_bytes) const {
  if (activation_bytes >= weight_input_bytes) {
    return activations * activation_bytes + std::min(weight_inputs, together - activations) * weight_input_bytes;
  }
  return weight_inputs * weight_input_bytes + std::min(activations, together - weight_inputs) * activation_bytes;
}

Live live_peak(const Instructions& list) {
  Live peak;
  int64_t activations = 0, weight_inputs = 0;
  for (const Instruction& instruction : list) {
    if (instruction.kind == Kind::forward) ++activations;
    if (instruction.kind == Kind::backward || instruction.kind == Kind::input_gradient) --activations;
    if (instruction.kind == Kind::input_gradient) ++weight_inputs;
    if (instruction.kind == Kind::weight_gradient) --weight_inputs;
    peak.activations = std::max(peak.activations, activations);
    peak.weight_inputs = std::max(peak.weight_inputs, weight_inputs);
    peak.together = std::max(peak.together, activations + weight_inputs);
  }
  return peak;
}

int64_t receive_peak(const Instructions& list) {
  using Key = std::pair<int64_t, int64_t>;  // micro-batch and chunk
  std::set<Key> activations, gradients;
  size_t peak = 0;
  for (const auto& [kind, micro_batch, chunk, peer] : list) {
    if (kind == Kind::receive_activation) activations.emplace(micro_batch, chunk);
    if (kind == Kind::receive_gradient) gradients.emplace(micro_batch, chunk);
    if (kind == Kind::forward) activations.erase({micro_batch, chunk});
    if (kind == Kind::backward || kind == Kind::input_gradient) gradients.erase({micro_batch, chunk});
    peak = std::max(peak, activations.size() + gradients.size());
  }
  return static_cast<int64_t>(peak);
}

}  // namespace terrace::schedule
