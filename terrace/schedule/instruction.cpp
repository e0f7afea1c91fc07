// The list of one stage and the validator.
#include "terrace/schedule/instruction.h"

#include "terrace/base/error.h"

namespace terrace::schedule {
namespace {

using Kind = Instruction::Kind;

// What the validator knows after each instruction.
struct Progress {
  int64_t micro_batches;
  int64_t live_bound;
  int64_t forwards = 0;  // so many are done: 0 .. forwards - 1, since they come in ascending order
  int64_t backwards = 0;
  bool stepped = false;

  std::string forward(int64_t micro_batch) {
    if (micro_batch < 0 || micro_batch >= micro_batches)
      return fmt::format("there are {} micro-batches", micro_batches);
    if (micro_batch < forwards) return "its forward was done before";
    if (micro_batch > forwards) return fmt::format("out of order: F{} has not been done", forwards);
    ++forwards;
    const int64_t live = forwards - backwards;
    return live <= live_bound ? "" : fmt::format("{} micro-batches are alive, at most {} may be", live, live_bound);
  }

  std::string backward(int64_t micro_batch) {
    if (micro_batch < 0 || micro_batch >= micro_batches)
      return fmt::format("there are {} micro-batches", micro_batches);
    if (micro_batch < backwards) return "its backward was done before";
    if (micro_batch >= forwards) return "its forward has not been done";
    if (micro_batch > backwards) return fmt::format("out of order: B{} has not been done", backwards);
    ++backwards;
    return "";
  }

  std::string step(int64_t micro_batch) {
    if (micro_batch != 0) return fmt::format("it belongs to no micro-batch, but names {}", micro_batch);
    if (forwards < micro_batches) return fmt::format("F{} has not been done", forwards);
    if (backwards < micro_batches) return fmt::format("B{} has not been done", backwards);
    stepped = true;
    return "";
  }
};

}  // namespace

std::string to_string(const Instruction& instruction) {
  switch (instruction.kind) {
    case Kind::forward:
      return fmt::format("F{}", instruction.micro_batch);
    case Kind::backward:
      return fmt::format("B{}", instruction.micro_batch);
    case Kind::optimizer_step:
      return "step";
  }
  return fmt::format("unknown kind {}", static_cast<int>(instruction.kind));
}

Instructions one_stage(int64_t micro_batches) {
  TERRACE_CHECK(micro_batches >= 1, "{} micro-batches", micro_batches);
  Instructions list;
  list.reserve(static_cast<size_t>(2 * micro_batches + 1));
  for (int64_t i = 0; i < micro_batches; ++i) {
    list.push_back({Kind::forward, i});
    list.push_back({Kind::backward, i});
  }
  list.push_back({Kind::optimizer_step});
  return list;
}

std::string validate(const Instructions& instructions, int64_t micro_batches, int64_t live_bound) {
  Progress progress{micro_batches, live_bound};
  for (size_t i = 0; i < instructions.size(); ++i) {
    const auto& [kind, micro_batch] = instructions[i];
    std::string problem;
    if (progress.stepped) {
      problem = "it comes after the optimizer step";
    } else if (kind == Kind::forward) {
      problem = progress.forward(micro_batch);
    } else if (kind == Kind::backward) {
      problem = progress.backward(micro_batch);
    } else {
      problem = progress.step(micro_batch);
    }
    if (!problem.empty()) return fmt::format("instruction {}, {}: {}", i, to_string(instructions[i]), problem);
  }
  return progress.stepped ? "" : "the optimizer step is missing";
}

}  // namespace terrace::schedule
