// Expands a stage's instructions segment by segment and adds the movements of weights and gradients.
#include "terrace/schedule/step/step.h"

#include <algorithm>
#include <utility>

#include "terrace/base/error.h"

namespace terrace::schedule {
namespace {

using StepKind = StepInstruction::Kind;

// The first hop of a movement that has two.
Hop first_hop(Movement movement) {
  const bool gathers = movement == Movement::gather_weights || movement == Movement::publish;
  return gathers ? Hop::rails : Hop::node;
}

Hop first_call(const Movements& movements, Movement movement) {
  return movements.has_two_hops(movement) ? first_hop(movement) : Hop::whole;
}

Hop last_call(const Movements& movements, Movement movement) {
  if (!movements.has_two_hops(movement)) return Hop::whole;
  return first_hop(movement) == Hop::node ? Hop::rails : Hop::node;
}

// One computation of a segment that reads weights.
struct Use {
  int64_t segment;
  bool backward;
};

// Writes the list of one stage and tracks which weights are gathered or in use and which reductions are under way, so
// that the executor needs no such bookkeeping.
class Writer {
 public:
  Writer(const StageSegments& segments, const Movements& movements) : segments_(segments), movements_(movements) {
    const int64_t last_held = segments.held.empty() ? -1 : segments.held.back();
    states_.resize(std::max(segments.reads.size(), static_cast<size_t>(last_held + 1)));
    for (const int64_t segment : segments.held) state(segment).is_held = true;
    for (const std::vector<int64_t>& list : segments.chunks) {
      for (const int64_t segment : list) {
        for (const int64_t read : segments.reads.at(static_cast<size_t>(segment))) {
          if (holds(read)) state(segment).reads.push_back(read);
        }
      }
    }
  }

  // Sets the order in which weights are used, from which the gathers ahead of use follow.
  void expect(std::vector<Use> uses) { uses_ = std::move(uses); }

  void add(const StepInstruction& instruction) { list_.push_back(instruction); }

  // Adds a computation of the segment and the gathers of the weights that the computation reads.
  void compute(StepKind kind, int64_t micro_batch, int64_t chunk, int64_t segment) {
    begin_use(segment);
    if (kind != StepKind::forward && !evaluates_) {
      for (const int64_t read : reads(segment)) allocate_gradient(read);
    }
    add({.kind = kind, .micro_batch = micro_batch, .chunk = chunk, .segment = segment});
    end_use(segment);
  }

  // Begins the reductions of the segment's gradient, which is complete for a micro-batch.
  void complete_gradient(int64_t segment, bool first, bool last) {
    if (!holds(segment)) return;
    Reduction reduction{.segment = segment, .steps = {}};
    const auto add_steps = [&](Movement movement, bool accumulates) {
      for (const Hop hop : movements_.hops(movement)) reduction.steps.push_back({movement, accumulates, hop});
    };
    if (movements_.reduces_each) add_steps(Movement::reduce, !first);
    if (last) {
      for (const Movement movement : movements_.after_last) add_steps(movement, false);
    }
    if (reduction.steps.empty()) return;
    begin(reduction);
    reductions_.push_back(std::move(reduction));
  }

  // Ends the current movement of every reduction under way and begins the next one.
  void advance_reductions() {
    for (Reduction& reduction : reductions_) {
      end(reduction);
      if (!reduction.complete()) begin(reduction);
    }
    std::erase_if(reductions_, [](const Reduction& reduction) { return reduction.complete(); });
  }

  void finish_reductions() {
    while (!reductions_.empty()) advance_reductions();
  }

  // Ends the reduction of an earlier micro-batch first, which may still read the same memory.
  void allocate_gradient(int64_t segment) {
    if (!movements_.reduces_each || !holds(segment)) return;
    while (std::ranges::find(reductions_, segment, &Reduction::segment) != reductions_.end()) advance_reductions();
    if (!std::exchange(state(segment).has_gradient, true))
      add({.kind = StepKind::allocate_gradient, .segment = segment});
  }

  void publish() {
    if (!movements_.publishes) return;
    for (const int64_t segment : segments_.held) {
      add({.kind = StepKind::begin_movement,
           .segment = segment,
           .movement = Movement::publish,
           .hop = first_call(movements_, Movement::publish)});
    }
  }

  void set_evaluates() { evaluates_ = true; }

  StepInstructions list() {
    TERRACE_CHECK(next_use_ == uses_.size(), "{} of {} uses of weights were added", next_use_, uses_.size());
    return std::move(list_);
  }

 private:
  struct Reduction {
    struct Step {
      Movement movement;
      bool accumulates;
      Hop hop;
    };
    int64_t segment = 0;
    std::vector<Step> steps;
    size_t next = 0;

    bool complete() const { return next == steps.size(); }
  };

  // The state of a segment of the model on the stage.
  struct State {
    std::vector<int64_t> reads = {};  // segments of this stage whose parameters its computation reads
    bool is_held = false, is_gathered = false, is_arriving = false, is_published = false, has_gradient = false;
    bool is_in_first_hop = false, is_arriving_updated = false;
    size_t first_hop_since = 0;  // the number of uses that had begun
  };

  State& state(int64_t segment) { return states_.at(static_cast<size_t>(segment)); }
  const State& state(int64_t segment) const { return states_.at(static_cast<size_t>(segment)); }
  bool holds(int64_t segment) const { return state(segment).is_held; }
  const std::vector<int64_t>& reads(int64_t segment) const { return state(segment).reads; }

  void begin_use(int64_t segment) {
    TERRACE_CHECK(next_use_ < uses_.size() && uses_[next_use_].segment == segment, "segment {} is used out of order",
                  segment);
    gather(uses_[next_use_++]);
    gather_ahead();
    for (const int64_t read : reads(segment)) {
      begin_second_hop(read);
      if (movements_.publishes) begin_second_publish_hop(read);
    }
    begin_second_hops_ahead();
    for (const int64_t read : reads(segment)) {
      end_publish(read);
      if (std::exchange(state(read).is_arriving, false)) end_gather(read);
      in_use_.push_back(read);
    }
  }

  void end_use(int64_t segment) {
    for (const int64_t read : reads(segment)) {
      in_use_.erase(std::ranges::find(in_use_, read));
      const bool still_used = std::ranges::find(in_use_, read) != in_use_.end();
      if (still_used || !std::exchange(state(read).is_gathered, false)) continue;
      add({.kind = StepKind::release, .segment = read});
    }
    // A released segment may be among the next uses.
    gather_ahead();
  }

  void gather_ahead() {
    if (!movements_.gathers) return;
    for (size_t i = next_use_; i < uses_ahead(movements_.uses_ahead()); ++i) gather(uses_[i]);
  }

  size_t uses_ahead(int64_t count) const { return std::min(uses_.size(), next_use_ + static_cast<size_t>(count)); }

  // Begins the second hop of the weights that are used soon and whose first hop had the time of an earlier use.
  void begin_second_hops_ahead() {
    for (size_t i = next_use_; i < uses_ahead(movements_.prefetch); ++i) {
      for (const int64_t read : reads(uses_[i].segment)) {
        const State& weights = state(read);
        if (weights.is_arriving && weights.first_hop_since < next_use_) begin_second_hop(read);
      }
    }
    // Updated weights are under way since the step before, and are gathered where weights are sharded.
    if (!movements_.publishes || evaluates_) return;
    const int64_t ahead = movements_.gathers ? movements_.uses_ahead() + 1 : 1;
    for (size_t i = next_use_; i < uses_ahead(ahead); ++i) {
      for (const int64_t read : reads(uses_[i].segment)) begin_second_publish_hop(read);
    }
  }

  // Waits for the first of two hops under way.
  void begin_second_hop(int64_t segment) {
    if (!std::exchange(state(segment).is_in_first_hop, false)) return;
    add_hop(Movement::gather_weights, segment, StepKind::end_movement, Hop::rails);
    add_hop(Movement::gather_weights, segment, StepKind::begin_movement, Hop::node);
  }

  void add_hop(Movement movement, int64_t segment, StepKind kind, Hop hop) {
    add({.kind = kind, .segment = segment, .movement = movement, .hop = hop});
  }

  void end_gather(int64_t segment) {
    begin_second_hop(segment);
    add_hop(Movement::gather_weights, segment, StepKind::end_movement, last_call(movements_, Movement::gather_weights));
  }

  void gather(const Use& use) {
    if (!movements_.gathers) return;
    for (const int64_t segment : reads(use.segment)) {
      if (std::exchange(state(segment).is_gathered, true)) continue;
      end_publish(segment);
      state(segment).is_arriving = true;
      state(segment).is_in_first_hop = movements_.has_two_hops(Movement::gather_weights);
      state(segment).first_hop_since = next_use_;
      add({.kind = StepKind::begin_movement,
           .segment = segment,
           .movement = Movement::gather_weights,
           .for_backward = use.backward,
           .hop = first_call(movements_, Movement::gather_weights)});
    }
  }

  // Waits for the updated weights of the previous step at their first use.
  void end_publish(int64_t segment) {
    if (!movements_.publishes || std::exchange(state(segment).is_published, true)) return;
    begin_second_publish_hop(segment);
    add_hop(Movement::publish, segment, StepKind::end_movement, last_call(movements_, Movement::publish));
  }

  void begin_second_publish_hop(int64_t segment) {
    if (!movements_.has_two_hops(Movement::publish) || std::exchange(state(segment).is_arriving_updated, true)) return;
    add_hop(Movement::publish, segment, StepKind::end_movement, Hop::rails);
    add_hop(Movement::publish, segment, StepKind::begin_movement, Hop::node);
  }

  void begin(const Reduction& reduction) {
    const auto& [movement, accumulates, hop] = reduction.steps[reduction.next];
    add({.kind = StepKind::begin_movement,
         .segment = reduction.segment,
         .movement = movement,
         .accumulates = accumulates,
         .hop = hop});
  }

  void end(Reduction& reduction) {
    const auto& [movement, accumulates, hop] = reduction.steps[reduction.next++];
    add({.kind = StepKind::end_movement,
         .segment = reduction.segment,
         .movement = movement,
         .accumulates = accumulates,
         .hop = hop});
    if (movement == Movement::reduce && is_first_hop(list_.back())) state(reduction.segment).has_gradient = false;
  }

  const StageSegments& segments_;
  const Movements& movements_;
  bool evaluates_ = false;
  std::vector<Use> uses_;
  size_t next_use_ = 0;
  std::vector<State> states_;  // by segment of the model
  std::vector<int64_t> in_use_;
  std::vector<Reduction> reductions_;  // under way, in the order in which they began
  StepInstructions list_;
};

// The segments of a chunk without the model's last segment, whose computation is the loss.
struct ChunkBody {
  std::vector<int64_t> segments;
  bool has_loss;
};

std::vector<ChunkBody> bodies_of(const StageSegments& segments) {
  std::vector<ChunkBody> bodies;
  for (const std::vector<int64_t>& list : segments.chunks) {
    bodies.push_back({list, !list.empty() && list.back() == segments.last});
    if (bodies.back().has_loss) bodies.back().segments.pop_back();
  }
  return bodies;
}

// weight_gradient is not among the uses, since it reads no weights.
std::vector<Use> uses_of(const Instructions& stage, const StageSegments& segments,
                         const std::vector<ChunkBody>& bodies) {
  std::vector<Use> uses;
  for (const Instruction& instruction : stage) {
    const auto& [list, has_loss] = bodies.at(static_cast<size_t>(instruction.chunk));
    if (instruction.kind == Instruction::Kind::forward) {
      for (const int64_t segment : list) uses.push_back({segment, false});
      if (has_loss) uses.push_back({segments.last, true});
    } else if (instruction.kind == Instruction::Kind::backward ||
               instruction.kind == Instruction::Kind::input_gradient) {
      for (auto segment = list.rbegin(); segment != list.rend(); ++segment) uses.push_back({*segment, true});
    }
  }
  return uses;
}

// The step instruction of a send or receive.
StepKind kind_of(Instruction::Kind kind) {
  switch (kind) {
    case Instruction::Kind::send_activation:
      return StepKind::send_activation;
    case Instruction::Kind::receive_activation:
      return StepKind::receive_activation;
    case Instruction::Kind::send_gradient:
      return StepKind::send_gradient;
    case Instruction::Kind::receive_gradient:
      return StepKind::receive_gradient;
    default:
      TERRACE_CHECK(false, "kind {} is neither a send nor a receive", static_cast<int>(kind));
      return StepKind::norm;
  }
}

// Adds the step instructions of one pipeline instruction at a time.
class TrainingStep {
 public:
  TrainingStep(Writer& writer, const StageSegments& segments, const std::vector<ChunkBody>& bodies,
               int64_t micro_batches)
      : writer_(writer), segments_(segments), bodies_(bodies), micro_batches_(micro_batches) {}

  void add(const Instruction& instruction) {
    const auto& [kind, micro_batch, chunk, peer] = instruction;
    switch (kind) {
      case Instruction::Kind::forward:
        return forward(micro_batch, chunk);
      case Instruction::Kind::backward:
        return backward(StepKind::backward, micro_batch, chunk);
      case Instruction::Kind::input_gradient:
        return backward(StepKind::input_gradient, micro_batch, chunk);
      case Instruction::Kind::weight_gradient:
        return weight_gradient(micro_batch, chunk);
      case Instruction::Kind::optimizer_step:
        return finish();
      default:
        writer_.add({.kind = kind_of(kind), .micro_batch = micro_batch, .chunk = chunk, .peer = peer});
    }
  }

 private:
  const ChunkBody& body(int64_t chunk) const { return bodies_.at(static_cast<size_t>(chunk)); }
  bool is_first(int64_t micro_batch) const { return micro_batch == 0; }
  bool is_last(int64_t micro_batch) const { return micro_batch + 1 == micro_batches_; }

  void complete(int64_t segment, int64_t micro_batch) {
    writer_.complete_gradient(segment, is_first(micro_batch), is_last(micro_batch));
  }

  void forward(int64_t micro_batch, int64_t chunk) {
    const auto& [list, has_loss] = body(chunk);
    for (const int64_t segment : list) writer_.compute(StepKind::forward, micro_batch, chunk, segment);
    if (!has_loss) return;
    writer_.compute(StepKind::loss, micro_batch, chunk, segments_.last);
    writer_.advance_reductions();
    complete(segments_.last, micro_batch);
    for (const int64_t copy : segments_.copies) complete(copy, micro_batch);
  }

  void backward(StepKind kind, int64_t micro_batch, int64_t chunk) {
    const std::vector<int64_t>& list = body(chunk).segments;
    for (auto segment = list.rbegin(); segment != list.rend(); ++segment) {
      writer_.compute(kind, micro_batch, chunk, *segment);
      writer_.advance_reductions();
      if (kind == StepKind::backward) complete(*segment, micro_batch);
    }
  }

  void weight_gradient(int64_t micro_batch, int64_t chunk) {
    const std::vector<int64_t>& list = body(chunk).segments;
    for (auto segment = list.rbegin(); segment != list.rend(); ++segment) {
      writer_.allocate_gradient(*segment);
      writer_.add({.kind = StepKind::weight_gradient, .micro_batch = micro_batch, .chunk = chunk, .segment = *segment});
      complete(*segment, micro_batch);
    }
  }

  void finish() {
    writer_.finish_reductions();
    for (const StepKind kind : {StepKind::finish_gradients, StepKind::norm, StepKind::update})
      writer_.add({.kind = kind});
    writer_.publish();
  }

  Writer& writer_;
  const StageSegments& segments_;
  const std::vector<ChunkBody>& bodies_;
  int64_t micro_batches_;
};

}  // namespace

std::vector<Hop> Movements::hops(Movement movement) const {
  if (!has_two_hops(movement)) return {Hop::whole};
  return {first_call(*this, movement), last_call(*this, movement)};
}

bool is_first_hop(const StepInstruction& movement) {
  return movement.hop == Hop::whole || movement.hop == first_hop(movement.movement);
}

bool is_last_hop(const StepInstruction& movement) {
  return movement.hop == Hop::whole || movement.hop != first_hop(movement.movement);
}

StepInstructions training_step(const Instructions& stage, int64_t micro_batches, const StageSegments& segments,
                               const Movements& movements) {
  const std::vector<ChunkBody> bodies = bodies_of(segments);
  Writer writer(segments, movements);
  writer.expect(uses_of(stage, segments, bodies));
  TrainingStep step(writer, segments, bodies, micro_batches);
  for (const Instruction& instruction : stage) step.add(instruction);
  return writer.list();
}

std::vector<AdjacentStages> neighbours(const Placement& placement, int64_t stage) {
  std::vector<AdjacentStages> chunks;
  for (int64_t chunk = 0; chunk < placement.chunks; ++chunk) {
    const int64_t own = placement.virtual_stage(stage, chunk);
    const auto other = [&](int64_t neighbour) {
      if (neighbour < 0 || neighbour >= placement.virtual_stages()) return int64_t{-1};
      const int64_t found = placement.stage_of(neighbour);
      return found == stage ? int64_t{-1} : found;
    };
    chunks.push_back({.before = other(own - 1), .after = other(own + 1)});
  }
  return chunks;
}

StepInstructions evaluation(const StageSegments& segments, const std::vector<AdjacentStages>& chunks,
                            const Movements& movements) {
  const std::vector<ChunkBody> bodies = bodies_of(segments);
  Writer writer(segments, movements);
  writer.set_evaluates();
  std::vector<Use> uses;
  for (const std::vector<int64_t>& list : segments.chunks) {
    for (const int64_t segment : list) uses.push_back({segment, false});
  }
  writer.expect(std::move(uses));
  for (int64_t chunk = 0; chunk < static_cast<int64_t>(segments.chunks.size()); ++chunk) {
    const auto [before, after] = chunks.at(static_cast<size_t>(chunk));
    if (before >= 0) {
      writer.add({.kind = StepKind::receive_activation, .micro_batch = 0, .chunk = chunk, .peer = before});
    }
    const auto& [list, has_loss] = bodies.at(static_cast<size_t>(chunk));
    for (const int64_t segment : list) writer.compute(StepKind::forward, 0, chunk, segment);
    if (has_loss) writer.compute(StepKind::loss, 0, chunk, segments.last);
    if (after >= 0) writer.add({.kind = StepKind::send_activation, .micro_batch = 0, .chunk = chunk, .peer = after});
  }
  return writer.list();
}

bool is_send(StepInstruction::Kind kind) {
  return kind == StepKind::send_activation || kind == StepKind::send_gradient;
}

bool is_receive(StepInstruction::Kind kind) {
  return kind == StepKind::receive_activation || kind == StepKind::receive_gradient;
}

}  // namespace terrace::schedule
