// Simulates the lists: each stage continues until it needs a time that is not known yet. When all of them wait, the
// transfer that ends first on any link is known to end then, since no stage begins another one before.
#include "terrace/schedule/step/step_times.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/schedule/step/shared_link.h"

namespace terrace::schedule {
namespace {

using StepKind = StepInstruction::Kind;

bool takes_gradient(StepKind kind) { return kind == StepKind::backward || kind == StepKind::input_gradient; }

constexpr size_t num_hops = static_cast<size_t>(Hop::rails) + 1;
constexpr size_t num_calls = (static_cast<size_t>(Movement::publish) + 1) * num_hops;

size_t call_of(Movement movement, Hop hop) {
  return static_cast<size_t>(movement) * num_hops + static_cast<size_t>(hop);
}

// The communicator of a stage that a movement or send uses.
size_t communicator_of(const StepInstruction& one) {
  if (is_send(one.kind)) return num_calls + static_cast<size_t>(one.peer);
  // Gathers of gradients and reductions of replicas are among the same ranks (group_of()).
  const bool replicas = one.movement == Movement::gather_gradients;
  return call_of(replicas ? Movement::reduce_replicas : one.movement, one.hop);
}

// A time in the step, and the same time if no two communicators shared a link.
struct Moment {
  double time = 0, unshared = 0;

  Moment after(double seconds) const { return {time + seconds, unshared + seconds}; }
};

Moment later(const Moment& a, const Moment& b) { return {std::max(a.time, b.time), std::max(a.unshared, b.unshared)}; }

constexpr double under_way = -1;  // the end of a transfer that is not known yet
constexpr double never = std::numeric_limits<double>::infinity();

// The numbers that occur in a list, so that what is known of them is in vectors.
struct Extent {
  int64_t micro_batches = 0, chunks = 0, first_segment = 0, end_segment = 0;

  explicit Extent(const StepInstructions& list) {
    for (const StepInstruction& one : list) {
      micro_batches = std::max(micro_batches, one.micro_batch + 1);
      chunks = std::max(chunks, one.chunk + 1);
      if (one.segment < 0) continue;
      first_segment = end_segment == 0 ? one.segment : std::min(first_segment, one.segment);
      end_segment = std::max(end_segment, one.segment + 1);
    }
  }

  size_t moving(const StepInstruction& one) const {
    return static_cast<size_t>(one.segment - first_segment) * num_calls + call_of(one.movement, one.hop);
  }
  size_t num_moving() const { return static_cast<size_t>(end_segment - first_segment) * num_calls; }
  size_t tensor(bool gradient, const StepInstruction& one) const {
    return static_cast<size_t>(((gradient ? chunks : 0) + one.chunk) * micro_batches + one.micro_batch);
  }
  size_t num_tensors() const { return static_cast<size_t>(2 * chunks * micro_batches); }
};

class StepLoop {
 public:
  StepLoop(const std::vector<StepInstructions>& lists, const StepCosts& costs)
      : lists_(lists), costs_(costs), channels_(lists.size()), next_ends_(lists.size(), never) {
    simulation_.stages.resize(lists.size());
    lanes_.reserve(lists.size());
    for (size_t stage = 0; stage < lists.size(); ++stage) {
      const auto links = static_cast<size_t>(costs.num_links);
      lanes_.emplace_back(lists[stage], links, num_calls + lists.size());
      simulation_.stages[stage].intervals.reserve(lists[stage].size());
      simulation_.stages[stage].moving_seconds.assign(links, 0.0);
      simulation_.stages[stage].exposed_seconds.assign(links, 0.0);
    }
  }

  StepSimulation run() {
    for (size_t stage = lists_.size(); stage > 0; --stage) ready_.push_back(stage - 1);
    do {
      while (!ready_.empty()) {
        const size_t stage = ready_.back();
        ready_.pop_back();
        advance(stage);
      }
    } while (end_first_transfer());
    for (size_t stage = 0; stage < lists_.size(); ++stage) {
      StageTimes& times = simulation_.stages[stage];
      TERRACE_CHECK(times.intervals.size() == lists_[stage].size(), "stage {} never reaches instruction {}", stage,
                    times.intervals.size());
      times.bubble_seconds = std::min(times.bubble_seconds, times.stage_seconds);
      for (const TimeInterval& interval : times.intervals) {
        simulation_.seconds = std::max(simulation_.seconds, interval.end);
      }
    }
    return std::move(simulation_);
  }

 private:
  struct Sent {
    size_t instruction;  // of the sender
    double seconds;      // with the link for itself
    double unshared_end;
  };
  // The tensors that one stage sends to another one, in order.
  struct Channel {
    size_t to;
    std::vector<Sent> sent = {};
    std::vector<Moment> posted = {};
    bool is_awaited = false;  // the receiver cannot continue without the next tensor
  };
  // A tensor from another stage: its number among all tensors of this channel.
  struct Expected {
    size_t from = 0, channel = 0, number = 0;
    bool is_posted = false;
  };
  struct Moving {
    size_t instruction = 0;
    size_t link = 0;
    double unshared_end = 0;
    bool has_begun = false;
  };
  // The progress of a stage.
  struct Lanes {
    Lanes(const StepInstructions& list, size_t num_links, size_t num_communicators)
        : extent(list),
          links(num_links),
          unshared_free(num_communicators, 0.0),
          moving(extent.num_moving()),
          expected(extent.num_tensors()) {
      const auto found = std::ranges::find(list, StepKind::norm, &StepInstruction::kind);
      norm = static_cast<size_t>(found - list.begin());
    }

    Extent extent;
    Moment now;  // end of the last computation
    std::vector<SharedLink> links;
    std::vector<double> unshared_free;  // by communicator: when its calls would have ended if it shared no link
    std::vector<Moving> moving;
    std::vector<Expected> expected;
    size_t num_sends = 0;  // under way
    Moment sends_end;
    size_t norm;  // the index of the norm in the list
    bool is_at_norm = false;
  };

  // Computes the times of the stage's instructions until one depends on a time that is not known yet.
  void advance(size_t index) {
    Lanes& lanes = lanes_[index];
    const std::vector<TimeInterval>& intervals = simulation_.stages[index].intervals;
    while (true) {
      if (intervals.size() == lanes.norm && !std::exchange(lanes.is_at_norm, true)) arrive(lanes);
      if (intervals.size() == lists_[index].size() || !next(index, lists_[index][intervals.size()])) break;
    }
    end_transfers_until(index, lanes.now.time);
  }

  // The last stage lets the others continue.
  void arrive(const Lanes& lanes) {
    barrier_ = later(barrier_, lanes.now);
    if (++num_arrived_ < lists_.size()) return;
    ready_.insert(ready_.end(), at_norm_.begin(), at_norm_.end());
  }

  // Computes the times of one instruction; false if they depend on a time that is not known yet.
  bool next(size_t index, const StepInstruction& one) {
    if (is_send(one.kind) || one.kind == StepKind::begin_movement) {
      begin(index, one);
    } else if (is_receive(one.kind)) {
      post(index, one);
    } else if (one.kind == StepKind::end_movement) {
      end(index, one);
    } else {
      return compute(index, one);
    }
    return true;
  }

  void begin(size_t index, const StepInstruction& one) {
    std::vector<TimeInterval>& intervals = simulation_.stages[index].intervals;
    Lanes& lanes = lanes_[index];
    const auto stage = static_cast<int64_t>(index);
    const auto link = static_cast<size_t>(costs_.link(stage, one));
    const size_t communicator = communicator_of(one), instruction = intervals.size();
    const double seconds = costs_.seconds(stage, one);
    end_transfers_until(index, lanes.now.time);
    intervals.push_back({under_way, under_way});
    lanes.links.at(link).add(instruction, communicator, lanes.now.time, seconds);
    next_ends_[index] = std::min(next_ends_[index], lanes.links[link].next_end());
    double& unshared_end = lanes.unshared_free[communicator];
    unshared_end = std::max(lanes.now.unshared, unshared_end) + seconds;
    if (is_send(one.kind)) {
      const auto to = static_cast<size_t>(one.peer);
      channels_[index][channel_of(index, to)].sent.push_back({instruction, seconds, unshared_end});
      ++lanes.num_sends;
    } else {
      lanes.moving[lanes.extent.moving(one)] = {instruction, link, unshared_end, true};
    }
  }

  // Ends the transfer of the stage that ends first: it has begun no other one until then.
  void end_transfer(size_t index) {
    Lanes& lanes = lanes_[index];
    const auto link = std::ranges::min_element(lanes.links, {}, &SharedLink::next_end);
    const auto [instruction, interval] = link->end_next();
    next_ends_[index] = std::ranges::min_element(lanes.links, {}, &SharedLink::next_end)->next_end();
    simulation_.stages[index].intervals[instruction] = interval;
    const StepInstruction& one = lists_[index][instruction];
    if (!is_send(one.kind)) {
      simulation_.stages[index].moving_seconds[static_cast<size_t>(link - lanes.links.begin())] +=
          interval.end - interval.start;
      return;
    }
    --lanes.num_sends;
    lanes.sends_end = later(lanes.sends_end, {interval.end, lanes.unshared_free[communicator_of(one)]});
    const auto to = static_cast<size_t>(one.peer);
    if (std::exchange(channels_[index][channel_of(index, to)].is_awaited, false)) ready_.push_back(to);
  }

  void end_transfers_until(size_t index, double time) {
    while (next_ends_[index] <= time) end_transfer(index);
  }

  // Ends the transfer that ends first of all stages, which all wait; false if there is none.
  bool end_first_transfer() {
    const auto first = std::ranges::min_element(next_ends_);
    if (*first == never) return false;
    end_transfer(static_cast<size_t>(first - next_ends_.begin()));
    return true;
  }

  void post(size_t index, const StepInstruction& one) {
    Lanes& lanes = lanes_[index];
    const auto from = static_cast<size_t>(one.peer);
    const size_t number = channel_of(from, index);
    std::vector<Moment>& posted = channels_[from][number].posted;
    lanes.expected[lanes.extent.tensor(one.kind == StepKind::receive_gradient, one)] = {from, number, posted.size(),
                                                                                        true};
    posted.push_back(lanes.now);
    simulation_.stages[index].intervals.push_back({lanes.now.time, lanes.now.time});
  }

  void end(size_t index, const StepInstruction& one) {
    Lanes& lanes = lanes_[index];
    StageTimes& times = simulation_.stages[index];
    const Moving& moving = lanes.moving[lanes.extent.moving(one)];
    const double start = lanes.now.time;
    // A movement that the previous step began has ended.
    if (moving.has_begun) {
      while (times.intervals[moving.instruction].end == under_way) end_transfer(index);
      lanes.now = later(lanes.now, {times.intervals[moving.instruction].end, moving.unshared_end});
    }
    const double coding = costs_.seconds(static_cast<int64_t>(index), one);
    lanes.now = lanes.now.after(coding);
    times.moving_seconds[moving.link] += coding;
    times.exposed_seconds[moving.link] += lanes.now.time - start;
    times.intervals.push_back({start, lanes.now.time});
  }

  // The number of the channel among those of its sender, which sends to few stages.
  size_t channel_of(size_t from, size_t to) {
    std::vector<Channel>& channels = channels_.at(from);
    const auto found = std::ranges::find(channels, to, &Channel::to);
    const auto number = static_cast<size_t>(found - channels.begin());
    if (number == channels.size()) channels.push_back({.to = to});
    return number;
  }

  // The time when the tensor that the computation takes from another stage arrives; none if that is not known yet.
  std::optional<Moment> arrival(const Lanes& lanes, const StepInstruction& one) {
    if (one.kind == StepKind::weight_gradient) return Moment{};
    const Expected& expected = lanes.expected[lanes.extent.tensor(takes_gradient(one.kind), one)];
    if (!expected.is_posted) return Moment{};
    Channel& channel = channels_[expected.from][expected.channel];
    if (expected.number < channel.sent.size()) {
      const auto& [instruction, seconds, unshared_end] = channel.sent[expected.number];
      const double end = simulation_.stages[expected.from].intervals[instruction].end;
      if (end != under_way) return later({end, unshared_end}, channel.posted[expected.number].after(seconds));
    }
    channel.is_awaited = true;
    return std::nullopt;
  }

  // The time when the stage may begin the computation; none if that is not known yet.
  std::optional<Moment> beginning(size_t index, const StepInstruction& one) {
    Lanes& lanes = lanes_[index];
    if (one.kind == StepKind::norm) {
      if (num_arrived_ == lists_.size()) return barrier_;
      at_norm_.push_back(index);
      return std::nullopt;
    }
    if (one.kind == StepKind::finish_gradients) {
      while (lanes.num_sends > 0) end_transfer(index);
      return later(lanes.now, lanes.sends_end);
    }
    if (one.micro_batch < 0) return lanes.now;
    const std::optional<Moment> there = arrival(lanes, one);
    return there ? std::optional(later(lanes.now, *there)) : std::nullopt;
  }

  // The seconds that a computation takes from `start` on, during parts of which calls of the stage are under way. The
  // stage begins no other call until it ends.
  double seconds_beside_calls(size_t index, double start, double seconds) {
    end_transfers_until(index, start);
    double now = start, left = seconds;
    while (next_ends_[index] < never) {
      const double end = now + left * costs_.beside_calls;
      if (end <= next_ends_[index]) return end - start;
      left -= (next_ends_[index] - now) / costs_.beside_calls;
      now = next_ends_[index];
      end_transfer(index);
    }
    return now + left - start;
  }

  bool compute(size_t index, const StepInstruction& one) {
    StageTimes& times = simulation_.stages[index];
    Lanes& lanes = lanes_[index];
    const std::optional<Moment> start = beginning(index, one);
    if (!start) return false;
    double seconds = one.kind == StepKind::release ? 0.0 : costs_.seconds(static_cast<int64_t>(index), one);
    if (costs_.beside_calls > 1 && one.micro_batch >= 0 && seconds > 0) {
      const double slowed = seconds_beside_calls(index, start->time, seconds);
      times.slowed_seconds += slowed - seconds;
      seconds = slowed;
    }
    times.stage_seconds += start->time - lanes.now.time;
    times.bubble_seconds += start->unshared - lanes.now.unshared;
    times.busy_seconds += seconds;
    lanes.now = start->after(seconds);
    times.intervals.push_back({start->time, lanes.now.time});
    return true;
  }

  const std::vector<StepInstructions>& lists_;
  const StepCosts& costs_;
  std::vector<Lanes> lanes_;                    // by stage
  std::vector<std::vector<Channel>> channels_;  // by sender
  std::vector<double> next_ends_;               // by stage: of its transfers under way, if it begins no other one
  std::vector<size_t> ready_;                   // stages that may continue
  std::vector<size_t> at_norm_;                 // stages that wait there for others
  size_t num_arrived_ = 0;                      // stages that have reached their norm
  Moment barrier_;                              // when the last of them reached it
  StepSimulation simulation_;
};

}  // namespace

double StageTimes::hidden_share() const {
  const double moving = std::accumulate(moving_seconds.begin(), moving_seconds.end(), 0.0);
  const double exposed = std::accumulate(exposed_seconds.begin(), exposed_seconds.end(), 0.0);
  return moving > 0 ? 1 - exposed / moving : 1.0;
}

StepSimulation simulate_step(const std::vector<StepInstructions>& lists, const StepCosts& costs) {
  return StepLoop(lists, costs).run();
}

}  // namespace terrace::schedule
