// Simulates the lists: each stage continues until it needs a time that is not known yet.
#include "terrace/schedule/times.h"

#include <algorithm>
#include <map>

#include "terrace/base/error.h"
#include "terrace/schedule/message.h"

namespace terrace::schedule {
namespace {

using Kind = Instruction::Kind;

class EventLoop {
 public:
  EventLoop(const std::vector<Instructions>& lists, const Placement& placement, const Costs& costs)
      : lists_(lists), placement_(placement), costs_(costs), free_(lists.size(), 0.0) {
    times_.intervals.resize(lists.size());
  }

  StepTimes run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t stage = 0; stage < lists_.size(); ++stage) {
        while (advance(stage)) moved = true;
      }
    }
    for (size_t stage = 0; stage < lists_.size(); ++stage) {
      TERRACE_CHECK(times_.intervals[stage].size() == lists_[stage].size(), "stage {} never reaches instruction {}",
                    stage, times_.intervals[stage].size());
      times_.seconds = std::max(times_.seconds, free_[stage]);
    }
    return times_;
  }

 private:
  // Computes the times of the stage's next instruction; false if they depend on a time that is not known yet.
  bool advance(size_t index) {
    std::vector<TimeInterval>& intervals = times_.intervals[index];
    if (intervals.size() == lists_[index].size()) return false;
    const Instruction& instruction = lists_[index][intervals.size()];
    const auto stage = static_cast<int64_t>(index);
    double start = free_[index];
    if (is_computation(instruction.kind)) {
      if (const auto message = between_stages(taken(instruction, placement_, stage), placement_)) {
        const auto sent = sent_.find(*message), posted = posted_.find(*message);
        if (sent == sent_.end() || posted == posted_.end()) return false;
        start = std::max(start, std::max(sent->second, posted->second) + costs_.transfer_seconds);
      }
    } else if (instruction.kind == Kind::optimizer_step) {
      if (!all_have_arrived()) return false;
      if (barrier_ < 0) barrier_ = *std::max_element(free_.begin(), free_.end());
      start = barrier_;
    }
    const double seconds = costs_.seconds(stage, instruction);
    intervals.push_back({start, start + seconds});
    free_[index] = start + seconds;
    times_.busy_seconds += seconds;
    if (is_send(instruction.kind)) sent_[*carried(instruction, placement_, stage)] = free_[index];
    if (is_receive(instruction.kind)) posted_[*carried(instruction, placement_, stage)] = free_[index];
    return true;
  }

  // Whether every stage has reached its optimizer step.
  bool all_have_arrived() const {
    for (size_t stage = 0; stage < lists_.size(); ++stage) {
      if (times_.intervals[stage].size() + 1 < lists_[stage].size()) return false;
    }
    return true;
  }

  const std::vector<Instructions>& lists_;
  const Placement& placement_;
  const Costs& costs_;
  std::vector<double> free_;  // by stage: when its last instruction so far ends
  double barrier_ = -1;       // when the last stage reached the optimizer step
  std::map<Message, double> sent_, posted_;
  StepTimes times_;
};

}  // namespace

Costs balanced(const ChunkCosts& costs, double transfer_seconds) {
  const auto seconds = [costs](int64_t, const Instruction& instruction) {
    switch (instruction.kind) {
      case Kind::forward:
        return costs.forward;
      case Kind::backward:
        return costs.input_gradient + costs.weight_gradient;
      case Kind::input_gradient:
        return costs.input_gradient;
      case Kind::weight_gradient:
        return costs.weight_gradient;
      default:
        return 0.0;
    }
  };
  return {seconds, transfer_seconds};
}

double StepTimes::bubble_share() const {
  return seconds > 0 ? 1 - busy_seconds / (seconds * static_cast<double>(intervals.size())) : 0.0;
}

StepTimes simulate_times(const std::vector<Instructions>& lists, const Placement& placement, const Costs& costs) {
  return EventLoop(lists, placement, costs).run();
}

}  // namespace terrace::schedule
