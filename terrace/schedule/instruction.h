// One list of instructions describes a training step: the trainer executes it, and whatever counts or predicts a step
// reads the same list.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace terrace::schedule {

struct Instruction {
  enum class Kind { forward, backward, optimizer_step };
  Kind kind;
  int64_t micro_batch = 0;  // optimizer_step: 0

  bool operator==(const Instruction&) const = default;
};

using Instructions = std::vector<Instruction>;

std::string to_string(const Instruction& instruction);  // "F3", "B3", "step"

// The step of a model that is not cut into stages: forward and backward of each micro-batch in turn, then the optimizer
// step. At most one micro-batch's activations are alive.
Instructions one_stage(int64_t micro_batches);

// What is wrong with the list, "" where nothing is: every micro-batch has its forward and its backward once, the
// backward after the forward and both in ascending order; the optimizer step comes once and last; at no time are more
// than `live_bound` micro-batches between their forward and their backward.
std::string validate(const Instructions& instructions, int64_t micro_batches, int64_t live_bound);

}  // namespace terrace::schedule
