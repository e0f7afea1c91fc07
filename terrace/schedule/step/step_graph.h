// Arranges the instructions of a simulated step so that the step can be timed again with other computation times, many
// times as fast as simulate_step(): the order and what waits for what are found once.
//
// Transfers keep the seconds that they took in the simulation, those that they shared a link with included; they begin
// when the instruction that starts them is reached and the call before them on their communicator has ended.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "terrace/schedule/step/step_times.h"

namespace terrace::schedule {

// One operation of a stage. The stage's clock is the time when its last computation ended; a slot holds the time when a
// transfer ends, until nothing waits for it any more.
struct StepOperation {
  enum class Kind : uint8_t {
    advance,   // the clock continues at the latest of its time and the times in the slots, for `seconds` and
               // computations
    transfer,  // stores in `out` the end of a transfer: `seconds` after the later of the clock and the first slot
    barrier,   // every stage's clock continues at the latest of all
  };
  Kind kind = Kind::advance;
  int32_t stage = 0;
  std::array<int32_t, 2> slots = {-1, -1};  // -1: none
  std::array<bool, 2> ends_slot = {};       // nothing waits for the slot after this operation
  int32_t out = -1;                         // of a transfer; -1: nothing waits for it
  double seconds = 0;                       // that do not depend on the times of computations
  // The computations, as a range of StepGraph::computations.
  uint32_t first = 0, count = 0;
};

struct StepGraph {
  std::vector<StepOperation> operations = {};  // in the order of their times, each after those that it waits for
  std::vector<double> computations = {};       // seconds of computations of the devices, which may be longer or shorter
  int64_t num_stages = 0, num_slots = 0;

  std::span<const double> computations_of(const StepOperation& operation) const {
    return std::span(computations).subspan(operation.first, operation.count);
  }
};

// `computing` gives the part of an instruction's costs.seconds for which devices compute; 0 for transfers. The
// simulation must be that of the lists and costs.
StepGraph step_graph(const std::vector<StepInstructions>& lists, const StepCosts& costs,
                     const std::function<double(int64_t stage, const StepInstruction&)>& computing,
                     const StepSimulation& simulation);

// The times of a step while it is timed.
struct StepClocks {
  std::vector<double> stages, slots;

  static StepClocks of(const StepGraph& graph) {
    return {std::vector<double>(static_cast<size_t>(graph.num_stages)),
            std::vector<double>(static_cast<size_t>(graph.num_slots))};
  }
  double& clock(const StepOperation& one) { return stages[static_cast<size_t>(one.stage)]; }
  // The time at which an operation of a stage begins.
  double begin(const StepOperation& one) const {
    double time = stages[static_cast<size_t>(one.stage)];
    for (const int32_t slot : one.slots) {
      if (slot >= 0) time = std::max(time, slots[static_cast<size_t>(slot)]);
    }
    return time;
  }
  // Carries out one operation, whose computations take so many seconds.
  void pass(const StepOperation& one, double computing) {
    if (one.kind == StepOperation::Kind::barrier) {
      std::ranges::fill(stages, std::ranges::max(stages));
      return;
    }
    const double time = begin(one);
    if (one.kind == StepOperation::Kind::advance) clock(one) = time + one.seconds + computing;
    if (one.out >= 0) slots[static_cast<size_t>(one.out)] = time + one.seconds;
  }
};

// The seconds of the step if the computations of an operation take computing(operation) seconds together. It is called
// once for each operation that computes, in their order. The clocks are those of the graph, which callers that time
// many steps keep.
template <typename Computing>
double seconds_of(const StepGraph& graph, StepClocks& clocks, Computing&& computing) {
  std::ranges::fill(clocks.stages, 0.0);
  for (const StepOperation& one : graph.operations) clocks.pass(one, one.count > 0 ? computing(one) : 0.0);
  return std::ranges::max(clocks.stages);
}

// The seconds for which each operation's end may be late without making the step longer (its total float), if the
// computations of operation i take computing[i] seconds. Barriers and transfers have 0.
std::vector<double> floats_of(const StepGraph& graph, const std::vector<double>& computing);

}  // namespace terrace::schedule
