// Simulates the lists: each stage continues until it needs a time of another stage that is not known yet.
#include "terrace/schedule/step_times.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "terrace/base/error.h"

namespace terrace::schedule {
namespace {

using StepKind = StepInstruction::Kind;

bool takes_gradient(StepKind kind) { return kind == StepKind::backward || kind == StepKind::input_gradient; }

constexpr size_t num_hops = static_cast<size_t>(Hop::rails) + 1;
constexpr size_t num_calls = (static_cast<size_t>(Movement::publish) + 1) * num_hops;

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
    return static_cast<size_t>(one.segment - first_segment) * num_calls + static_cast<size_t>(one.movement) * num_hops +
           static_cast<size_t>(one.hop);
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
      : lists_(lists), costs_(costs), channels_(lists.size()) {
    simulation_.stages.resize(lists.size());
    lanes_.reserve(lists.size());
    for (size_t stage = 0; stage < lists.size(); ++stage) {
      const auto links = static_cast<size_t>(costs.num_links);
      lanes_.emplace_back(lists[stage], links);
      simulation_.stages[stage].intervals.reserve(lists[stage].size());
      simulation_.stages[stage].moving_seconds.assign(links, 0.0);
      simulation_.stages[stage].exposed_seconds.assign(links, 0.0);
    }
  }

  StepSimulation run() {
    for (size_t stage = lists_.size(); stage > 0; --stage) ready_.push_back(stage - 1);
    while (!ready_.empty()) {
      const size_t stage = ready_.back();
      ready_.pop_back();
      advance(stage);
    }
    for (size_t stage = 0; stage < lists_.size(); ++stage) {
      const std::vector<TimeInterval>& intervals = simulation_.stages[stage].intervals;
      TERRACE_CHECK(intervals.size() == lists_[stage].size(), "stage {} never reaches instruction {}", stage,
                    intervals.size());
      for (const TimeInterval& interval : intervals) simulation_.seconds = std::max(simulation_.seconds, interval.end);
    }
    return std::move(simulation_);
  }

 private:
  struct Sent {
    double start, seconds;
  };
  // The tensors that one stage sends to another one, in order.
  struct Channel {
    size_t to;
    std::vector<Sent> sent = {};
    std::vector<double> posted = {};
    bool is_awaited = false;  // the receiver cannot continue without the next tensor
  };
  // A tensor from another stage: its number among all tensors of this channel.
  struct Expected {
    size_t from = 0, channel = 0, number = 0;
    bool is_posted = false;
  };
  struct Moving {
    double end = 0;
    size_t link = 0;
    bool has_begun = false;
  };
  // How far a stage is.
  struct Lanes {
    Lanes(const StepInstructions& list, size_t links)
        : extent(list), link_free(links, 0.0), moving(extent.num_moving()), expected(extent.num_tensors()) {
      const auto found = std::ranges::find(list, StepKind::norm, &StepInstruction::kind);
      norm = static_cast<size_t>(found - list.begin());
    }

    Extent extent;
    double now = 0;  // end of the last computation
    std::vector<double> link_free;
    std::vector<Moving> moving;
    std::vector<Expected> expected;
    double sends_end = 0;
    size_t norm;  // the index of the norm in the list
    bool is_at_norm = false;
  };

  // Computes the times of the stage's instructions until one depends on a time that is not known yet.
  void advance(size_t index) {
    Lanes& lanes = lanes_[index];
    const std::vector<TimeInterval>& intervals = simulation_.stages[index].intervals;
    while (true) {
      if (intervals.size() == lanes.norm && !std::exchange(lanes.is_at_norm, true)) arrive(lanes);
      if (intervals.size() == lists_[index].size() || !next(index, lists_[index][intervals.size()])) return;
    }
  }

  // The last stage lets the others continue.
  void arrive(const Lanes& lanes) {
    barrier_ = std::max(barrier_, lanes.now);
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
    StageTimes& times = simulation_.stages[index];
    Lanes& lanes = lanes_[index];
    const auto stage = static_cast<int64_t>(index);
    const auto link = static_cast<size_t>(costs_.link(stage, one));
    const double seconds = costs_.seconds(stage, one), start = std::max(lanes.now, lanes.link_free.at(link));
    lanes.link_free[link] = start + seconds;
    times.intervals.push_back({start, start + seconds});
    if (is_send(one.kind)) {
      const auto to = static_cast<size_t>(one.peer);
      Channel& channel = channels_[index][channel_of(index, to)];
      channel.sent.push_back({start, seconds});
      if (std::exchange(channel.is_awaited, false)) ready_.push_back(to);
      lanes.sends_end = std::max(lanes.sends_end, start + seconds);
      return;
    }
    times.moving_seconds[link] += seconds;
    lanes.moving[lanes.extent.moving(one)] = {start + seconds, link, true};
  }

  void post(size_t index, const StepInstruction& one) {
    Lanes& lanes = lanes_[index];
    const auto from = static_cast<size_t>(one.peer);
    const size_t number = channel_of(from, index);
    std::vector<double>& posted = channels_[from][number].posted;
    lanes.expected[lanes.extent.tensor(one.kind == StepKind::receive_gradient, one)] = {from, number, posted.size(),
                                                                                        true};
    posted.push_back(lanes.now);
    simulation_.stages[index].intervals.push_back({lanes.now, lanes.now});
  }

  void end(size_t index, const StepInstruction& one) {
    Lanes& lanes = lanes_[index];
    const Moving& moving = lanes.moving[lanes.extent.moving(one)];
    const double start = lanes.now;
    // A movement that the previous step began has ended.
    if (moving.has_begun) lanes.now = std::max(lanes.now, moving.end);
    const double coding = costs_.seconds(static_cast<int64_t>(index), one);
    lanes.now += coding;
    simulation_.stages[index].moving_seconds[moving.link] += coding;
    simulation_.stages[index].exposed_seconds[moving.link] += lanes.now - start;
    simulation_.stages[index].intervals.push_back({start, lanes.now});
  }

  // The number of the channel among those of its sender, which sends to few stages.
  size_t channel_of(size_t from, size_t to) {
    std::vector<Channel>& channels = channels_.at(from);
    const auto found = std::ranges::find(channels, to, &Channel::to);
    const auto number = static_cast<size_t>(found - channels.begin());
    if (number == channels.size()) channels.push_back({.to = to});
    return number;
  }

  // When the tensor that the computation takes from another stage arrives; -1 if that is not known yet.
  double arrival(const Lanes& lanes, const StepInstruction& one) {
    if (one.kind == StepKind::weight_gradient) return 0;
    const Expected& expected = lanes.expected[lanes.extent.tensor(takes_gradient(one.kind), one)];
    if (!expected.is_posted) return 0;
    Channel& channel = channels_[expected.from][expected.channel];
    if (channel.sent.size() <= expected.number) {
      channel.is_awaited = true;
      return -1;
    }
    const Sent& message = channel.sent[expected.number];
    return std::max(message.start, channel.posted[expected.number]) + message.seconds;
  }

  bool compute(size_t index, const StepInstruction& one) {
    StageTimes& times = simulation_.stages[index];
    Lanes& lanes = lanes_[index];
    double start = lanes.now;
    if (one.kind == StepKind::norm) {
      if (num_arrived_ < lists_.size()) {
        at_norm_.push_back(index);
        return false;
      }
      start = barrier_;
    } else if (one.kind == StepKind::finish_gradients) {
      start = std::max(start, lanes.sends_end);
    } else if (one.micro_batch >= 0) {
      const double there = arrival(lanes, one);
      if (there < 0) return false;
      start = std::max(start, there);
    }
    const double seconds = one.kind == StepKind::release ? 0.0 : costs_.seconds(static_cast<int64_t>(index), one);
    times.stage_seconds += start - lanes.now;
    times.busy_seconds += seconds;
    lanes.now = start + seconds;
    times.intervals.push_back({start, lanes.now});
    return true;
  }

  const std::vector<StepInstructions>& lists_;
  const StepCosts& costs_;
  std::vector<Lanes> lanes_;                    // by stage
  std::vector<std::vector<Channel>> channels_;  // by sender
  std::vector<size_t> ready_;                   // stages that may continue
  std::vector<size_t> at_norm_;                 // stages that wait there for others
  size_t num_arrived_ = 0;                      // stages that have reached their norm
  double barrier_ = -1;                         // when the last of them reached it
  StepSimulation simulation_;
};

}  // namespace

double StageTimes::hidden_share() const {
  const double moving = std::accumulate(moving_seconds.begin(), moving_seconds.end(), 0.0);
  const double exposed = std::accumulate(exposed_seconds.begin(), exposed_seconds.end(), 0.0);
  return moving > 0 ? 1 - exposed / moving : 1.0;
}

StepSimulation simulate_times(const std::vector<StepInstructions>& lists, const StepCosts& costs) {
  return StepLoop(lists, costs).run();
}

}  // namespace terrace::schedule
