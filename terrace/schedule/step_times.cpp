// Simulates the lists: each stage continues until it needs a time of another stage that is not known yet.
#include "terrace/schedule/step_times.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "terrace/base/error.h"

namespace terrace::schedule {
namespace {

using StepKind = StepInstruction::Kind;

bool sends(StepKind kind) { return kind == StepKind::send_activation || kind == StepKind::send_gradient; }
bool receives(StepKind kind) { return kind == StepKind::receive_activation || kind == StepKind::receive_gradient; }
bool takes_gradient(StepKind kind) { return kind == StepKind::backward || kind == StepKind::input_gradient; }

class StepLoop {
 public:
  StepLoop(const std::vector<StepInstructions>& lists, const StepCosts& costs) : lists_(lists), costs_(costs) {
    simulation_.stages.resize(lists.size());
    lanes_.resize(lists.size());
    for (size_t stage = 0; stage < lists.size(); ++stage) {
      const auto links = static_cast<size_t>(costs.num_links);
      lanes_[stage].link_free.assign(links, 0.0);
      simulation_.stages[stage].moving_seconds.assign(links, 0.0);
      simulation_.stages[stage].exposed_seconds.assign(links, 0.0);
      const auto norm = std::ranges::find(lists[stage], StepKind::norm, &StepInstruction::kind);
      norms_.push_back(static_cast<size_t>(norm - lists[stage].begin()));
    }
  }

  StepSimulation run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t stage = 0; stage < lists_.size(); ++stage) {
        while (advance(stage)) moved = true;
      }
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
  // A tensor from another stage: its number among all tensors between this pair of stages.
  struct Expected {
    std::pair<size_t, size_t> pair;
    size_t number;
  };
  struct Lanes {
    double now = 0;  // end of the last computation
    std::vector<double> link_free;
    std::map<std::pair<int64_t, Movement>, std::pair<double, size_t>>
        moving;                                                       // by segment and movement: its end and link
    std::map<std::tuple<bool, int64_t, int64_t>, Expected> expected;  // by gradient, micro-batch and chunk
    double sends_end = 0;
  };
  struct Sent {
    double start, seconds;
  };

  // Computes the times of the stage's next instruction; false if they depend on a time that is not known yet.
  bool advance(size_t index) {
    StageTimes& times = simulation_.stages[index];
    if (times.intervals.size() == lists_[index].size()) return false;
    const StepInstruction& one = lists_[index][times.intervals.size()];
    Lanes& lanes = lanes_[index];
    if (sends(one.kind) || one.kind == StepKind::begin_movement) {
      begin(index, one);
    } else if (receives(one.kind)) {
      const std::pair pair{static_cast<size_t>(one.peer), index};
      const bool gradient = one.kind == StepKind::receive_gradient;
      lanes.expected[{gradient, one.micro_batch, one.chunk}] = {pair, posted_[pair].size()};
      posted_[pair].push_back(lanes.now);
      times.intervals.push_back({lanes.now, lanes.now});
    } else if (one.kind == StepKind::end_movement) {
      const auto moving = lanes.moving.find({one.segment, one.movement});
      // A movement that the previous step began has ended.
      const auto [end, link] = moving == lanes.moving.end() ? std::pair{lanes.now, size_t{0}} : moving->second;
      const double start = lanes.now;
      lanes.now = std::max(lanes.now, end);
      times.exposed_seconds[link] += lanes.now - start;
      times.intervals.push_back({start, lanes.now});
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
    if (sends(one.kind)) {
      sent_[{index, static_cast<size_t>(one.peer)}].push_back({start, seconds});
      lanes.sends_end = std::max(lanes.sends_end, start + seconds);
      return;
    }
    times.moving_seconds[link] += seconds;
    lanes.moving[{one.segment, one.movement}] = {start + seconds, link};
  }

  // When the tensor that the computation takes from another stage arrives; -1 if that is not known yet.
  double arrival(const Lanes& lanes, const StepInstruction& one) const {
    const auto expected = lanes.expected.find({takes_gradient(one.kind), one.micro_batch, one.chunk});
    if (expected == lanes.expected.end() || one.kind == StepKind::weight_gradient) return 0;
    const auto& [pair, number] = expected->second;
    const auto sent = sent_.find(pair);
    if (sent == sent_.end() || sent->second.size() <= number) return -1;
    const Sent& message = sent->second[number];
    return std::max(message.start, posted_.at(pair)[number]) + message.seconds;
  }

  bool compute(size_t index, const StepInstruction& one) {
    StageTimes& times = simulation_.stages[index];
    Lanes& lanes = lanes_[index];
    const bool has_cost = one.kind != StepKind::release && one.kind != StepKind::allocate_gradient;
    double start = lanes.now;
    if (one.kind == StepKind::norm) {
      if (!all_have_arrived()) return false;
      if (barrier_ < 0) {
        for (const Lanes& of_stage : lanes_) barrier_ = std::max(barrier_, of_stage.now);
      }
      start = barrier_;
    } else if (one.kind == StepKind::finish_gradients) {
      start = std::max(start, lanes.sends_end);
    } else if (one.micro_batch >= 0) {
      const double there = arrival(lanes, one);
      if (there < 0) return false;
      start = std::max(start, there);
    }
    const double seconds = has_cost ? costs_.seconds(static_cast<int64_t>(index), one) : 0.0;
    times.stage_seconds += start - lanes.now;
    times.busy_seconds += seconds;
    lanes.now = start + seconds;
    times.intervals.push_back({start, lanes.now});
    return true;
  }

  // Whether every stage has reached its norm.
  bool all_have_arrived() const {
    for (size_t stage = 0; stage < lists_.size(); ++stage) {
      const size_t done = simulation_.stages[stage].intervals.size();
      if (done < norms_[stage]) return false;
    }
    return true;
  }

  const std::vector<StepInstructions>& lists_;
  const StepCosts& costs_;
  std::vector<Lanes> lanes_;                                         // by stage
  std::vector<size_t> norms_;                                        // by stage: the index of the norm in its list
  std::map<std::pair<size_t, size_t>, std::vector<Sent>> sent_;      // by sender and receiver, in order
  std::map<std::pair<size_t, size_t>, std::vector<double>> posted_;  // by sender and receiver, in order
  double barrier_ = -1;
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
