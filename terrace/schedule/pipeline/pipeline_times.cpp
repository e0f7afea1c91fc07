// Orders the instructions of a pipeline once, and computes their times in a single pass.
#include "terrace/schedule/pipeline/pipeline_times.h"

#include <algorithm>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/schedule/pipeline/message.h"

namespace terrace::schedule {
namespace {

using Kind = Instruction::Kind;

// Puts the lists in order: a stage continues until it needs a tensor that has not been sent.
class Ordering {
 public:
  Ordering(const Pipeline& pipeline, const std::vector<Instructions>& lists)
      : pipeline_(pipeline),
        placement_(placement(pipeline)),
        lists_(lists),
        done_(lists.size(), 0),
        messages_(num_messages(placement_, pipeline.micro_batches)) {}

  std::vector<OrderedInstruction> run() {
    size_t total = 0;
    for (const Instructions& list : lists_) total += list.size();
    order_.reserve(total);
    for (size_t stage = lists_.size(); stage > 0; --stage) ready_.push_back(stage - 1);
    while (!ready_.empty()) {
      const size_t stage = ready_.back();
      ready_.pop_back();
      while (done_[stage] < lists_[stage].size() && add(stage, lists_[stage][done_[stage]])) ++done_[stage];
    }
    for (size_t stage = 0; stage < lists_.size(); ++stage) {
      TERRACE_CHECK(done_[stage] == lists_[stage].size(), "stage {} never reaches instruction {}", stage, done_[stage]);
    }
    return std::move(order_);
  }

 private:
  struct State {
    bool is_sent = false;
    int32_t awaited_by = -1;  // the stage that cannot continue without the message
  };

  // False if the instruction takes a tensor that has not been sent.
  bool add(size_t index, const Instruction& one) {
    if (one.kind == Kind::optimizer_step) return true;
    const auto stage = static_cast<int32_t>(index);
    const bool computes = is_computation(one.kind);
    const auto message =
        computes ? between_stages(taken(one, placement_, stage), placement_) : carried(one, placement_, stage);
    OrderedInstruction ordered{.kind = one.kind,
                               .is_first = one.micro_batch == 0,
                               .is_last = one.micro_batch + 1 == pipeline_.micro_batches,
                               .stage = stage,
                               .place = static_cast<int32_t>(stage * pipeline_.chunks + one.chunk),
                               .message = -1,
                               .channel = -1};
    if (is_send(one.kind)) ordered.channel = static_cast<int32_t>(stage * pipeline_.stages + one.peer);
    if (message) {
      const size_t number = number_of(*message, placement_, pipeline_.micro_batches);
      State& state = messages_.at(number);
      if (computes && !state.is_sent) {
        state.awaited_by = stage;
        return false;
      }
      if (is_send(one.kind)) {
        state.is_sent = true;
        if (state.awaited_by >= 0) ready_.push_back(static_cast<size_t>(std::exchange(state.awaited_by, -1)));
      }
      ordered.message = static_cast<int32_t>(number);
    }
    order_.push_back(ordered);
    return true;
  }

  const Pipeline& pipeline_;
  Placement placement_;
  const std::vector<Instructions>& lists_;
  std::vector<size_t> done_;   // by stage
  std::vector<size_t> ready_;  // stages that may continue
  std::vector<State> messages_;
  std::vector<OrderedInstruction> order_;
};

class PipelinePass {
 public:
  PipelinePass(const PipelineOrder& order, const PipelineCosts& costs, bool with_intervals)
      : order_(order),
        costs_(costs),
        with_intervals_(with_intervals),
        lanes_(static_cast<size_t>(order.pipeline.stages)),
        channel_free_(static_cast<size_t>(order.pipeline.stages * order.pipeline.stages), 0.0),
        messages_(static_cast<size_t>(order.num_messages)) {
    times_.stages.resize(lanes_.size());
  }

  PipelineTimes run() {
    for (const OrderedInstruction& one : order_.instructions) {
      const TimeInterval interval =
          next(one, lanes_[static_cast<size_t>(one.stage)], costs_.chunks[static_cast<size_t>(one.place)]);
      if (with_intervals_) times_.stages[static_cast<size_t>(one.stage)].intervals.push_back(interval);
    }
    for (size_t stage = 0; stage < lanes_.size(); ++stage) finish(stage);
    for (size_t stage = 0; stage < lanes_.size(); ++stage) complete(times_.stages[stage]);
    return std::move(times_);
  }

 private:
  // The progress of a stage.
  struct Lanes {
    double now = 0;  // end of the last computation
    double busy = 0, weights = 0, reductions = 0, sends = 0;
    double sends_end = 0, reductions_end = 0;
  };
  struct MessageTimes {
    double start = 0, seconds = 0;  // of its send
    double posted = 0;
  };

  TimeInterval next(const OrderedInstruction& one, Lanes& lanes, const StageChunkCosts& chunk) {
    switch (one.kind) {
      case Kind::forward:
        return one.is_first ? first_forward(one, lanes, chunk) : compute(one, lanes, chunk.forward);
      case Kind::input_gradient:
        return compute(one, lanes, chunk.input_gradient);
      case Kind::backward:
        return compute_reduced(one, lanes, chunk, chunk.input_gradient + chunk.weight_gradient);
      case Kind::weight_gradient:
        return compute_reduced(one, lanes, chunk, chunk.weight_gradient);
      case Kind::send_activation:
        return send(one, lanes, chunk.send_activation);
      case Kind::send_gradient:
        return send(one, lanes, chunk.send_gradient);
      default:
        messages_[static_cast<size_t>(one.message)].posted = lanes.now;
        return {lanes.now, lanes.now};
    }
  }

  // The time when the stage may begin a computation: when the tensor that it takes has arrived.
  double beginning(const OrderedInstruction& one, const Lanes& lanes) const {
    if (one.message < 0) return lanes.now;
    const MessageTimes& message = messages_[static_cast<size_t>(one.message)];
    return std::max(lanes.now, std::max(message.start, message.posted) + message.seconds);
  }

  TimeInterval compute(const OrderedInstruction& one, Lanes& lanes, double seconds) const {
    const double start = beginning(one, lanes);
    lanes.now = start + seconds;
    lanes.busy += seconds;
    return {start, lanes.now};
  }

  TimeInterval first_forward(const OrderedInstruction& one, Lanes& lanes, const StageChunkCosts& chunk) const {
    const auto& [first_seconds, last_seconds, last_forward_seconds] = chunk.weights;
    const double ready = beginning(one, lanes), start = std::max(ready, first_seconds);
    lanes.now = std::max(start + chunk.forward, last_seconds + last_forward_seconds);
    lanes.busy += chunk.forward;
    lanes.weights += lanes.now - ready - chunk.forward;
    return {start, lanes.now};
  }

  // A computation of weight gradients, and their reductions if it is the last one.
  TimeInterval compute_reduced(const OrderedInstruction& one, Lanes& lanes, const StageChunkCosts& chunk,
                               double seconds) const {
    TimeInterval interval = compute(one, lanes, seconds);
    const auto& [first_seconds, all_seconds, last_seconds, wait_seconds] = chunk.reductions;
    if (!one.is_last || all_seconds <= 0) return interval;
    lanes.now += wait_seconds;
    lanes.reductions += wait_seconds;
    interval.end = lanes.now;
    const double start = std::max(lanes.reductions_end, interval.start + first_seconds);
    lanes.reductions_end = std::max(start + all_seconds, interval.end + last_seconds);
    return interval;
  }

  TimeInterval send(const OrderedInstruction& one, Lanes& lanes, double seconds) {
    double& free = channel_free_[static_cast<size_t>(one.channel)];
    const double start = std::max(lanes.now, free);
    free = start + seconds;
    MessageTimes& message = messages_[static_cast<size_t>(one.message)];
    message.start = start;
    message.seconds = seconds;
    lanes.sends_end = std::max(lanes.sends_end, free);
    if (costs_.sends_occupy_stage) {
      lanes.sends += free - lanes.now;
      lanes.now = free;
    }
    return {start, free};
  }

  // Adds the time from the stage's last computation to the norm.
  void finish(size_t stage) {
    const Lanes& lanes = lanes_[stage];
    PipelineStageTimes& times = times_.stages[stage];
    const double finish_seconds = costs_.finish_seconds.empty() ? 0.0 : costs_.finish_seconds[stage];
    const double reduced = std::max(lanes.now, lanes.reductions_end);
    times.busy_seconds = lanes.busy + finish_seconds;
    times.weights_seconds = lanes.weights;
    times.reductions_seconds = lanes.reductions + reduced - lanes.now;
    times.sends_seconds = lanes.sends;
    times_.seconds = std::max(times_.seconds, std::max(reduced, lanes.sends_end) + finish_seconds);
  }

  void complete(PipelineStageTimes& times) const {
    const double others = times.busy_seconds + times.weights_seconds + times.reductions_seconds + times.sends_seconds;
    times.idle_seconds = times_.seconds - others;
    if (with_intervals_) times.intervals.push_back({times_.seconds, times_.seconds});
  }

  const PipelineOrder& order_;
  const PipelineCosts& costs_;
  bool with_intervals_;
  std::vector<Lanes> lanes_;          // by stage
  std::vector<double> channel_free_;  // when the last send of the channel ends
  std::vector<MessageTimes> messages_;
  PipelineTimes times_;
};

}  // namespace

PipelineOrder::PipelineOrder(const Pipeline& pipeline) : PipelineOrder(pipeline, schedule::instructions(pipeline)) {}

PipelineOrder::PipelineOrder(const Pipeline& pipeline, const std::vector<Instructions>& lists)
    : pipeline(pipeline),
      num_messages(static_cast<int64_t>(schedule::num_messages(placement(pipeline), pipeline.micro_batches))),
      instructions(Ordering(pipeline, lists).run()) {}

PipelineTimes simulate_pipeline(const PipelineOrder& order, const PipelineCosts& costs, bool with_intervals) {
  const int64_t stages = order.pipeline.stages, places = stages * order.pipeline.chunks;
  TERRACE_CHECK(std::ssize(costs.chunks) == places, "costs of {} chunks for {}", costs.chunks.size(), places);
  TERRACE_CHECK(costs.finish_seconds.empty() || std::ssize(costs.finish_seconds) == stages,
                "finish_seconds of {} stages for {}", costs.finish_seconds.size(), stages);
  return PipelinePass(order, costs, with_intervals).run();
}

}  // namespace terrace::schedule
