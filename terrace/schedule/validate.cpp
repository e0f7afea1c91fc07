// Checks each stage alone, then the order of transfers between stages, then the execution of all lists together.
#include "terrace/schedule/validate.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/schedule/message.h"
#include "terrace/schedule/stage_check.h"

namespace terrace::schedule {
namespace {

std::string at(size_t stage, size_t index, const Instructions& list) {
  return fmt::format("stage {}, instruction {}, {}", stage, index, to_string(list[index]));
}

std::string check_stage(const Instructions& list, size_t stage, StageCheck check) {
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string problem = check.next(list[i]);
    if (!problem.empty()) return at(stage, i, list) + ": " + problem;
  }
  return check.stepped() ? "" : fmt::format("stage {}: the optimizer step is missing", stage);
}

// The transfers from one stage to another in the order of both lists, with the instruction that sends or receives.
struct Channel {
  struct Entry {
    Message message;
    size_t instruction;
  };
  std::vector<Entry> sends, receives;
};

std::string check_channels(const std::vector<Instructions>& lists, const Placement& placement) {
  std::map<std::pair<int64_t, int64_t>, Channel> channels;
  for (size_t stage = 0; stage < lists.size(); ++stage) {
    for (size_t i = 0; i < lists[stage].size(); ++i) {
      const Instruction& instruction = lists[stage][i];
      if (!is_send(instruction.kind) && !is_receive(instruction.kind)) continue;
      const Message message = *carried(instruction, placement, static_cast<int64_t>(stage));
      Channel& channel = channels[{message.from(placement), message.to(placement)}];
      (is_send(instruction.kind) ? channel.sends : channel.receives).push_back({message, i});
    }
  }
  // The checks of single stages ensure that each message is sent and received once, so both lists have the same length.
  for (const auto& [ends, channel] : channels) {
    const auto from = static_cast<size_t>(ends.first), to = static_cast<size_t>(ends.second);
    for (size_t k = 0; k < channel.receives.size(); ++k) {
      const auto &sent = channel.sends[k], &received = channel.receives[k];
      if (sent.message != received.message) {
        return at(to, received.instruction, lists[to]) + ": the send at its position is " +
               at(from, sent.instruction, lists[from]);
      }
    }
  }
  return "";
}

// Executes the lists until all are complete or no stage can continue.
class Execution {
 public:
  Execution(const std::vector<Instructions>& lists, const Placement& placement, bool rendezvous)
      : lists_(lists), placement_(placement), rendezvous_(rendezvous), next_(lists.size(), 0) {}

  // "" if all lists complete, else the instructions at which stages wait.
  std::string run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t stage = 0; stage < lists_.size(); ++stage) {
        for (; next_[stage] < lists_[stage].size() && can_continue(stage); ++next_[stage]) {
          record(stage);
          moved = true;
        }
      }
    }
    std::string waiting;
    for (size_t stage = 0; stage < lists_.size(); ++stage) {
      if (next_[stage] == lists_[stage].size()) continue;
      waiting += (waiting.empty() ? "" : "; ") + at(stage, next_[stage], lists_[stage]);
    }
    if (waiting.empty()) return "";
    return fmt::format("deadlock where sends {}: {}", rendezvous_ ? "wait for their receives" : "do not wait", waiting);
  }

 private:
  const Instruction& next(size_t stage) const { return lists_[stage][next_[stage]]; }

  bool can_continue(size_t stage) const {
    const Instruction& instruction = next(stage);
    const auto number = static_cast<int64_t>(stage);
    if (is_computation(instruction.kind)) {
      const auto message = between_stages(taken(instruction, placement_, number), placement_);
      return !message || sent_.contains(*message);
    }
    return !rendezvous_ || !is_send(instruction.kind) || posted_.contains(*carried(instruction, placement_, number));
  }

  void record(size_t stage) {
    const Instruction& instruction = next(stage);
    const auto number = static_cast<int64_t>(stage);
    if (is_send(instruction.kind)) sent_.insert(*carried(instruction, placement_, number));
    if (is_receive(instruction.kind)) posted_.insert(*carried(instruction, placement_, number));
  }

  const std::vector<Instructions>& lists_;
  Placement placement_;
  bool rendezvous_;
  std::vector<size_t> next_;  // by stage: its next instruction
  std::set<Message> sent_, posted_;
};

}  // namespace

std::string validate(const std::vector<Instructions>& lists, const Placement& placement, int64_t micro_batches,
                     const std::vector<Live>& bounds) {
  if (lists.size() != static_cast<size_t>(placement.stages) || bounds.size() != lists.size()) {
    return fmt::format("{} lists and {} bounds for {} stages", lists.size(), bounds.size(), placement.stages);
  }
  for (size_t stage = 0; stage < lists.size(); ++stage) {
    const StageCheck check(placement, static_cast<int64_t>(stage), micro_batches, bounds[stage]);
    if (std::string problem = check_stage(lists[stage], stage, check); !problem.empty()) return problem;
  }
  if (std::string problem = check_channels(lists, placement); !problem.empty()) return problem;
  if (std::string problem = Execution(lists, placement, false).run(); !problem.empty()) return problem;
  return Execution(lists, placement, true).run();
}

}  // namespace terrace::schedule
