// Checks each stage alone, then the order of transfers between stages, then the execution of all lists together.
#include "terrace/schedule/pipeline/validate.h"

#include <deque>
#include <map>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/schedule/pipeline/message.h"
#include "terrace/schedule/step/stage_check.h"

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

// A set of messages.
class MessageSet {
 public:
  MessageSet(const Placement& placement, int64_t micro_batches)
      : lowers_(placement.virtual_stages()),
        micro_batches_(micro_batches),
        contained_(static_cast<size_t>(2 * lowers_ * micro_batches)) {}

  void insert(const Message& message) { contained_[index(message)] = true; }
  bool contains(const Message& message) const { return contained_[index(message)]; }

 private:
  size_t index(const Message& message) const {
    return static_cast<size_t>(((message.gradient ? micro_batches_ : 0) + message.micro_batch) * lowers_ +
                               message.lower);
  }

  int64_t lowers_, micro_batches_;
  std::vector<bool> contained_;
};

// Executes the lists until all are complete or no stage can continue. A subclass says when messages arrive.
class Execution {
 public:
  Execution(const std::vector<Instructions>& lists, const Placement& placement, int64_t micro_batches)
      : placement_(placement), arrived_(placement, micro_batches), lists_(lists), next_(lists.size(), 0) {}
  virtual ~Execution() = default;
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  // "" if all lists complete, else the instructions at which stages wait.
  std::string run(const char* sends) {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t stage = 0; stage < lists_.size(); ++stage) {
        for (; next_[stage] < lists_[stage].size() && can_continue(stage); ++next_[stage]) {
          const Instruction& instruction = lists_[stage][next_[stage]];
          if (is_send(instruction.kind) || is_receive(instruction.kind)) start(instruction, stage);
          moved = true;
        }
      }
    }
    std::string waiting;
    for (size_t stage = 0; stage < lists_.size(); ++stage) {
      if (next_[stage] == lists_[stage].size()) continue;
      waiting += (waiting.empty() ? "" : "; ") + at(stage, next_[stage], lists_[stage]);
    }
    return waiting.empty() ? "" : fmt::format("deadlock where sends {}: {}", sends, waiting);
  }

 protected:
  virtual void start(const Instruction& transfer, size_t stage) = 0;
  virtual bool can_return(const Instruction& /*send*/, size_t /*stage*/) const { return true; }
  virtual bool can_compute(size_t /*stage*/) const { return true; }
  Message message_of(const Instruction& transfer, size_t stage) const {
    return *carried(transfer, placement_, static_cast<int64_t>(stage));
  }

  const Placement placement_;
  MessageSet arrived_;

 private:
  bool can_continue(size_t stage) const {
    const Instruction& instruction = lists_[stage][next_[stage]];
    if (is_send(instruction.kind)) return can_return(instruction, stage);
    if (!is_computation(instruction.kind)) return true;
    if (!can_compute(stage)) return false;
    const auto message = between_stages(taken(instruction, placement_, static_cast<int64_t>(stage)), placement_);
    return !message || arrived_.contains(*message);
  }

  const std::vector<Instructions>& lists_;
  std::vector<size_t> next_;  // by stage: its next instruction
};

// A send never waits.
class BufferedExecution : public Execution {
 public:
  using Execution::Execution;

 protected:
  void start(const Instruction& transfer, size_t stage) override {
    if (is_send(transfer.kind)) arrived_.insert(message_of(transfer, stage));
  }
};

// A stage waits in a send until the receive is posted.
class RendezvousExecution final : public BufferedExecution {
 public:
  RendezvousExecution(const std::vector<Instructions>& lists, const Placement& placement, int64_t micro_batches)
      : BufferedExecution(lists, placement, micro_batches), posted_(placement, micro_batches) {}

 private:
  void start(const Instruction& transfer, size_t stage) override {
    if (is_receive(transfer.kind)) posted_.insert(message_of(transfer, stage));
    BufferedExecution::start(transfer, stage);
  }
  bool can_return(const Instruction& send, size_t stage) const override {
    return posted_.contains(message_of(send, stage));
  }

  MessageSet posted_;
};

// A stage waits before each computation until all transfers that it has begun have moved, each when both of its ends
// have begun it.
class DrainingExecution final : public Execution {
 public:
  DrainingExecution(const std::vector<Instructions>& lists, const Placement& placement, int64_t micro_batches)
      : Execution(lists, placement, micro_batches), begun_(placement, micro_batches), waiting_(lists.size(), 0) {}

 private:
  void start(const Instruction& transfer, size_t stage) override {
    const Message message = message_of(transfer, stage);
    if (begun_.contains(message)) {
      arrived_.insert(message);
      --waiting_[static_cast<size_t>(transfer.peer)];
    } else {
      begun_.insert(message);
      ++waiting_[stage];
    }
  }
  bool can_compute(size_t stage) const override { return waiting_[stage] == 0; }

  MessageSet begun_;
  std::vector<int64_t> waiting_;  // by stage: its transfers whose other end has not begun them
};

// No stage waits in a send or receive. The transfers of a queue of a stage move one after another, each when the other
// side has come to it too.
class InOrderExecution final : public Execution {
 public:
  InOrderExecution(const std::vector<Instructions>& lists, const Placement& placement, int64_t micro_batches,
                   const QueueOf& queue_of)
      : Execution(lists, placement, micro_batches), queue_of_(queue_of) {}

 private:
  using QueueKey = std::pair<int64_t, int64_t>;  // a stage and one of its queues
  using Queue = std::deque<Message>;

  void start(const Instruction& transfer, size_t stage) override {
    const Message message = message_of(transfer, stage);
    const auto number = static_cast<int64_t>(stage);
    Queue& queue = queues_[{number, queue_of_(number, transfer)}];
    queue.push_back(message);
    ends_[message].push_back(&queue);
    if (queue.front() == message) deliver(message);
  }

  // Moves the message if it is the first in both of its queues, and then what was behind it.
  void deliver(const Message& message) {
    const auto found = ends_.find(message);
    if (found->second.size() < 2) return;
    const std::vector<Queue*> queues = found->second;
    if (queues[0]->front() != message || queues[1]->front() != message) return;
    ends_.erase(found);
    arrived_.insert(message);
    for (Queue* queue : queues) queue->pop_front();
    for (Queue* queue : queues) {
      if (!queue->empty() && ends_.contains(queue->front())) deliver(Message(queue->front()));
    }
  }

  const QueueOf& queue_of_;
  std::map<QueueKey, Queue> queues_;
  std::map<Message, std::vector<Queue*>> ends_;  // of each message that has not moved: the queues that hold it
};

int64_t queue_of_direction(int64_t, const Instruction& transfer) {
  return 2 * transfer.peer + (is_send(transfer.kind) ? 1 : 0);
}

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
  for (const std::string& problem :
       {BufferedExecution(lists, placement, micro_batches).run("do not wait"),
        RendezvousExecution(lists, placement, micro_batches).run("wait for their receives"),
        find_deadlock(lists, placement, micro_batches, queue_of_direction)}) {
    if (!problem.empty()) return problem;
  }
  return "";
}

std::string find_deadlock_of_drains(const std::vector<Instructions>& lists, const Placement& placement,
                                    int64_t micro_batches) {
  return DrainingExecution(lists, placement, micro_batches).run("and receives are waited for before every computation");
}

std::string find_deadlock(const std::vector<Instructions>& lists, const Placement& placement, int64_t micro_batches,
                          const QueueOf& queue_of) {
  return InOrderExecution(lists, placement, micro_batches, queue_of).run("and receives of a queue move in order");
}

}  // namespace terrace::schedule
