// Simulates the lists: each stage continues until it needs a time that is not known yet.
#include "terrace/schedule/step/times.h"

#include <algorithm>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/schedule/pipeline/message.h"

namespace terrace::schedule {
namespace {

using Kind = Instruction::Kind;

class EventLoop {
 public:
  EventLoop(const std::vector<Instructions>& lists, const Placement& placement, const ScheduleCosts& costs)
      : lists_(lists),
        placement_(placement),
        costs_(costs),
        micro_batches_(num_micro_batches(lists)),
        free_(lists.size(), 0.0),
        busy_(lists.size(), 0.0),
        messages_(num_messages(placement, micro_batches_)) {
    times_.intervals.resize(lists.size());
    for (size_t stage = 0; stage < lists.size(); ++stage) times_.intervals[stage].reserve(lists[stage].size());
  }

  ScheduleTimes run() {
    for (size_t stage = lists_.size(); stage > 0; --stage) ready_.push_back(stage - 1);
    while (!ready_.empty()) {
      const size_t stage = ready_.back();
      ready_.pop_back();
      while (advance(stage)) {
      }
    }
    for (size_t stage = 0; stage < lists_.size(); ++stage) {
      TERRACE_CHECK(times_.intervals[stage].size() == lists_[stage].size(), "stage {} never reaches instruction {}",
                    stage, times_.intervals[stage].size());
      times_.seconds = std::max(times_.seconds, free_[stage]);
      times_.busy_seconds += busy_[stage];
    }
    return std::move(times_);
  }

 private:
  // The times when the send and the receive of a message end; -1: not known yet.
  struct MessageTimes {
    double sent = -1, posted = -1;
    int64_t awaited_by = -1;  // the stage that cannot continue without it; -1: none
  };

  // Computes the times of the stage's next instruction; false if they depend on a time that is not known yet.
  bool advance(size_t index) {
    std::vector<TimeInterval>& intervals = times_.intervals[index];
    if (intervals.size() == lists_[index].size()) return false;
    const Instruction& instruction = lists_[index][intervals.size()];
    const auto stage = static_cast<int64_t>(index);
    double start = free_[index];
    if (is_computation(instruction.kind)) {
      if (const auto message = between_stages(taken(instruction, placement_, stage), placement_)) {
        MessageTimes& times = times_of(*message);
        if (times.sent < 0 || times.posted < 0) {
          times.awaited_by = stage;
          return false;
        }
        start = std::max(start, std::max(times.sent, times.posted) + costs_.transfer_seconds);
      }
    } else if (instruction.kind == Kind::optimizer_step) {
      if (!arrive(index)) return false;
      start = barrier_;
    }
    const double seconds = costs_.seconds(stage, instruction);
    intervals.push_back({start, start + seconds});
    free_[index] = start + seconds;
    busy_[index] += seconds;
    if (is_receive(instruction.kind)) times_of(*carried(instruction, placement_, stage)).posted = free_[index];
    if (is_send(instruction.kind)) send(times_of(*carried(instruction, placement_, stage)), free_[index]);
    return true;
  }

  MessageTimes& times_of(const Message& message) {
    return messages_.at(number_of(message, placement_, micro_batches_));
  }

  void send(MessageTimes& times, double end) {
    times.sent = end;
    if (times.awaited_by >= 0) ready_.push_back(static_cast<size_t>(std::exchange(times.awaited_by, -1)));
  }

  // Whether every stage has reached its optimizer step, as this one has. The last stage lets the others continue.
  bool arrive(size_t stage) {
    if (at_barrier_.size() < lists_.size()) {
      at_barrier_.push_back(stage);
      barrier_ = std::max(barrier_, free_[stage]);
      if (at_barrier_.size() == lists_.size()) ready_.insert(ready_.end(), at_barrier_.begin(), at_barrier_.end());
      return false;
    }
    return true;
  }

  const std::vector<Instructions>& lists_;
  const Placement& placement_;
  const ScheduleCosts& costs_;
  int64_t micro_batches_;
  std::vector<double> free_;        // by stage: when its last instruction so far ends
  std::vector<double> busy_;        // by stage: sum of the durations of its instructions
  std::vector<size_t> ready_;       // stages that may continue
  std::vector<size_t> at_barrier_;  // stages that have reached the optimizer step
  double barrier_ = -1;             // when the last of them reached it
  std::vector<MessageTimes> messages_;
  ScheduleTimes times_;
};

}  // namespace

ScheduleCosts balanced(const ChunkCosts& costs, double transfer_seconds) {
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

double ScheduleTimes::bubble_share() const {
  return seconds > 0 ? 1 - busy_seconds / (seconds * static_cast<double>(intervals.size())) : 0.0;
}

ScheduleTimes simulate_schedule(const std::vector<Instructions>& lists, const Placement& placement,
                                const ScheduleCosts& costs) {
  return EventLoop(lists, placement, costs).run();
}

}  // namespace terrace::schedule
