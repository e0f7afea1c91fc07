// Walks through the lists in the order in which the stages can continue, and notes what each instruction waits for.
#include "terrace/schedule/step/step_graph.h"

#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "terrace/base/error.h"

namespace terrace::schedule {
namespace {

using GraphKind = StepInstruction::Kind;

// The transfers and operations that wait for each other have numbers of values; slots are given to them at the end.
class GraphBuilder {
 public:
  GraphBuilder(const std::vector<StepInstructions>& lists, const StepCosts& costs,
               const std::function<double(int64_t, const StepInstruction&)>& computing,
               const StepSimulation& simulation)
      : lists_(lists), costs_(costs), computing_(computing), simulation_(simulation), stages_(lists.size()) {
    graph_.num_stages = static_cast<int64_t>(lists.size());
  }

  StepGraph build() {
    bool progresses = true;
    while (progresses) {
      progresses = false;
      for (size_t stage = 0; stage < stages_.size(); ++stage) {
        while (stages_[stage].next < lists_[stage].size() && add(stage, lists_[stage][stages_[stage].next])) {
          ++stages_[stage].next;
          progresses = true;
        }
      }
    }
    for (size_t stage = 0; stage < stages_.size(); ++stage) {
      TERRACE_CHECK(stages_[stage].next == lists_[stage].size(), "stage {} never reaches instruction {}", stage,
                    stages_[stage].next);
      wait_for_calls(stage, [](const CallKey&) { return true; });
    }
    order_by_time();
    give_slots();
    return std::move(graph_);
  }

 private:
  using CallKey = std::tuple<bool, int64_t, int64_t>;       // sends: the peer; movements: their group and hop
  using MovingKey = std::tuple<int64_t, int64_t, int64_t>;  // movement, hop, segment
  using TensorKey = std::tuple<bool, int64_t, int64_t>;     // gradient, chunk, micro-batch
  struct Expected {
    std::pair<size_t, size_t> channel;  // from, to
    size_t number = 0;
    int32_t posted = -1;
  };
  struct Stage {
    size_t next = 0;
    std::map<CallKey, int32_t> last_calls = {};
    std::map<MovingKey, int32_t> moving = {};
    std::map<TensorKey, Expected> expected = {};
    bool is_at_norm = false;
  };

  static CallKey call_key(const StepInstruction& one) {
    if (is_send(one.kind)) return {true, one.peer, 0};
    // Gathers of gradients and reductions of replicas are among the same ranks (group_of()).
    const Movement movement = one.movement == Movement::gather_gradients ? Movement::reduce_replicas : one.movement;
    return {false, static_cast<int64_t>(movement), static_cast<int64_t>(one.hop)};
  }

  static MovingKey moving_key(const StepInstruction& one) {
    return {static_cast<int64_t>(one.movement), static_cast<int64_t>(one.hop), one.segment};
  }

  // Adds what the instruction does; false if it waits for an instruction that is not in the graph yet.
  bool add(size_t index, const StepInstruction& one) {
    const auto number = static_cast<int64_t>(index);
    Stage& stage = stages_[index];
    if (is_send(one.kind) || one.kind == GraphKind::begin_movement) {
      add_transfer(index, one);
    } else if (is_receive(one.kind)) {
      post(index, one);
    } else if (one.kind == GraphKind::end_movement) {
      const auto found = stage.moving.find(moving_key(one));
      advance(index, found == stage.moving.end() ? -1 : found->second, -1, costs_.seconds(number, one));
    } else if (one.kind == GraphKind::norm) {
      if (!stage.is_at_norm) {
        stage.is_at_norm = true;
        if (++num_at_norm_ == stages_.size()) graph_.operations.push_back({.kind = StepOperation::Kind::barrier});
      }
      if (num_at_norm_ < stages_.size()) return false;
      advance(index, -1, -1, costs_.seconds(number, one));
    } else if (one.kind == GraphKind::finish_gradients) {
      wait_for_calls(index, [](const CallKey& key) { return std::get<0>(key); });
      advance(index, -1, -1, costs_.seconds(number, one));
    } else if (one.kind != GraphKind::release && one.kind != GraphKind::allocate_gradient) {
      return compute(index, one);
    }
    return true;
  }

  bool compute(size_t index, const StepInstruction& one) {
    const auto number = static_cast<int64_t>(index);
    int32_t sent = -1, posted = -1;
    if (one.micro_batch >= 0 && one.kind != GraphKind::weight_gradient) {
      const bool gradient = one.kind == GraphKind::backward || one.kind == GraphKind::input_gradient;
      std::map<TensorKey, Expected>& expected = stages_[index].expected;
      const auto found = expected.find({gradient, one.chunk, one.micro_batch});
      if (found != expected.end()) {
        const std::vector<int32_t>& values = sent_[found->second.channel];
        if (found->second.number >= values.size()) return false;
        sent = values[found->second.number];
        posted = found->second.posted;
        // The segments of the chunk after the first one have the tensor.
        expected.erase(found);
      }
    }
    // Where calls slow a computation down, they do so as in the simulation.
    const TimeInterval& interval = simulation_.stages[index].intervals[stages_[index].next];
    const double seconds = costs_.beside_calls > 1 ? interval.end - interval.start : costs_.seconds(number, one);
    const double computing = computing_(number, one);
    advance(index, sent, posted, seconds - computing, computing);
    return true;
  }

  // Continues the last operation if it is the stage's, and nothing is waited for.
  void advance(size_t index, int32_t first, int32_t second, double seconds, double computing = 0) {
    const auto stage = static_cast<int32_t>(index);
    const bool waits = first >= 0 || second >= 0;
    if (!waits && seconds == 0 && computing == 0) return;
    const bool continues = !waits && !graph_.operations.empty() &&
                           graph_.operations.back().kind == StepOperation::Kind::advance &&
                           graph_.operations.back().stage == stage;
    if (!continues) {
      graph_.operations.push_back(
          {.stage = stage, .slots = {first, second}, .first = static_cast<uint32_t>(graph_.computations.size())});
    }
    graph_.operations.back().seconds += seconds;
    if (computing == 0) return;
    graph_.computations.push_back(computing);
    ++graph_.operations.back().count;
  }

  int32_t add_value(size_t index, int32_t after, double seconds) {
    graph_.operations.push_back({.kind = StepOperation::Kind::transfer,
                                 .stage = static_cast<int32_t>(index),
                                 .slots = {after, -1},
                                 .out = num_values_,
                                 .seconds = seconds});
    return num_values_++;
  }

  void add_transfer(size_t index, const StepInstruction& one) {
    const TimeInterval& interval = simulation_.stages[index].intervals[stages_[index].next];
    std::map<CallKey, int32_t>& calls = stages_[index].last_calls;
    const auto [last, is_first] = calls.try_emplace(call_key(one), -1);
    last->second = add_value(index, last->second, interval.end - interval.start);
    if (is_send(one.kind)) {
      sent_[{index, static_cast<size_t>(one.peer)}].push_back(last->second);
    } else {
      stages_[index].moving[moving_key(one)] = last->second;
    }
  }

  // A message arrives at the earliest a transfer's time after its receive is posted. That matters only where the
  // transfer takes longer than the computation between the post and the use of the tensor.
  void post(size_t index, const StepInstruction& one) {
    const auto from = static_cast<size_t>(one.peer);
    const std::pair channel(from, index);
    Expected expected{.channel = channel, .number = posted_[channel]++};
    StepInstruction send = one;
    send.kind = one.kind == GraphKind::receive_gradient ? GraphKind::send_gradient : GraphKind::send_activation;
    send.peer = static_cast<int64_t>(index);
    const double seconds = costs_.seconds(one.peer, send);
    if (seconds > 0 && binds(index, seconds)) expected.posted = add_value(index, -1, seconds);
    stages_[index].expected[{one.kind == GraphKind::receive_gradient, one.chunk, one.micro_batch}] = expected;
  }

  // Whether the instructions that follow the post until the next receive end before the seconds have passed.
  bool binds(size_t index, double seconds) const {
    const std::vector<TimeInterval>& intervals = simulation_.stages[index].intervals;
    const size_t here = stages_[index].next;
    for (size_t i = here + 1; i < intervals.size(); ++i) {
      const GraphKind kind = lists_[index][i].kind;
      if (is_send(kind) || is_receive(kind) || kind == GraphKind::begin_movement) continue;
      return intervals[i].end < intervals[here].start + seconds;
    }
    return true;
  }

  template <typename Selects>
  void wait_for_calls(size_t index, const Selects& selects) {
    for (const auto& [key, value] : stages_[index].last_calls) {
      if (selects(key)) advance(index, value, -1, 0);
    }
  }

  // Orders the operations by the times at which stages begin them, so that few values are waited for at a time. No
  // operation begins before one that it waits for, and those that begin at the same time keep their order.
  void order_by_time() {
    StepClocks clocks{std::vector<double>(stages_.size()), std::vector<double>(static_cast<size_t>(num_values_))};
    std::vector<std::pair<double, size_t>> begins;
    for (size_t i = 0; i < graph_.operations.size(); ++i) {
      const StepOperation& one = graph_.operations[i];
      double computing = 0;
      for (const double seconds : graph_.computations_of(one)) computing += seconds;
      const double begin = one.kind == StepOperation::Kind::barrier    ? std::ranges::max(clocks.stages)
                           : one.kind == StepOperation::Kind::transfer ? clocks.clock(one)
                                                                       : clocks.begin(one);
      begins.emplace_back(begin, i);
      clocks.pass(one, computing);
    }
    std::ranges::sort(begins);
    std::vector<StepOperation> ordered;
    for (const auto& [begin, i] : begins) ordered.push_back(graph_.operations[i]);
    graph_.operations = std::move(ordered);
  }

  // Gives values slots, which are free again when nothing waits for the value any more.
  void give_slots() {
    std::vector<std::pair<size_t, size_t>> last_use(static_cast<size_t>(num_values_), {0, 0});
    std::vector<bool> is_used(static_cast<size_t>(num_values_), false);
    for (size_t i = 0; i < graph_.operations.size(); ++i) {
      for (size_t input = 0; input < 2; ++input) {
        const int32_t value = graph_.operations[i].slots[input];
        if (value < 0) continue;
        last_use[static_cast<size_t>(value)] = {i, input};
        is_used[static_cast<size_t>(value)] = true;
      }
    }
    std::vector<int32_t> slot_of(static_cast<size_t>(num_values_), -1), free;
    for (size_t i = 0; i < graph_.operations.size(); ++i) {
      StepOperation& one = graph_.operations[i];
      const int32_t out = one.out;
      for (size_t input = 0; input < 2; ++input) {
        if (one.slots[input] < 0) continue;
        const auto value = static_cast<size_t>(one.slots[input]);
        one.slots[input] = slot_of[value];
        one.ends_slot[input] = last_use[value] == std::pair(i, input);
        if (one.ends_slot[input]) free.push_back(slot_of[value]);
      }
      if (out < 0) continue;
      if (!is_used[static_cast<size_t>(out)]) {
        one.out = -1;
        continue;
      }
      if (free.empty()) free.push_back(static_cast<int32_t>(graph_.num_slots++));
      one.out = slot_of[static_cast<size_t>(out)] = free.back();
      free.pop_back();
    }
  }

  const std::vector<StepInstructions>& lists_;
  const StepCosts& costs_;
  const std::function<double(int64_t, const StepInstruction&)>& computing_;
  const StepSimulation& simulation_;
  std::vector<Stage> stages_;
  std::map<std::pair<size_t, size_t>, std::vector<int32_t>> sent_;  // values by channel
  std::map<std::pair<size_t, size_t>, size_t> posted_;
  int32_t num_values_ = 0;
  size_t num_at_norm_ = 0;
  StepGraph graph_;
};

}  // namespace

StepGraph step_graph(const std::vector<StepInstructions>& lists, const StepCosts& costs,
                     const std::function<double(int64_t, const StepInstruction&)>& computing,
                     const StepSimulation& simulation) {
  return GraphBuilder(lists, costs, computing, simulation).build();
}

std::vector<double> floats_of(const StepGraph& graph, const std::vector<double>& computing) {
  constexpr double never = std::numeric_limits<double>::infinity();
  const size_t count = graph.operations.size();
  std::vector<double> late_by(count, 0.0);
  StepClocks clocks = StepClocks::of(graph);
  for (size_t i = 0; i < count; ++i) {
    clocks.pass(graph.operations[i], computing[i]);
    if (graph.operations[i].kind == StepOperation::Kind::advance) late_by[i] = -clocks.clock(graph.operations[i]);
  }
  // From the last operation to the first: the latest times at which a stage may continue and a slot may be filled.
  StepClocks latest = StepClocks::of(graph);
  std::ranges::fill(latest.stages, std::ranges::max(clocks.stages));
  std::ranges::fill(latest.slots, never);
  for (size_t i = count; i > 0; --i) {
    const StepOperation& one = graph.operations[i - 1];
    if (one.kind == StepOperation::Kind::barrier) {
      std::ranges::fill(latest.stages, std::ranges::min(latest.stages));
      continue;
    }
    double& clock = latest.clock(one);
    double begin = never;
    if (one.kind == StepOperation::Kind::advance) {
      late_by[i - 1] += clock;
      begin = clock = clock - one.seconds - computing[i - 1];
    } else if (one.out >= 0) {
      double& out = latest.slots[static_cast<size_t>(one.out)];
      begin = std::exchange(out, never) - one.seconds;
      clock = std::min(clock, begin);
    }
    for (const int32_t slot : one.slots) {
      if (slot < 0) continue;
      double& filled = latest.slots[static_cast<size_t>(slot)];
      filled = std::min(filled, begin);
    }
  }
  return late_by;
}

}  // namespace terrace::schedule
