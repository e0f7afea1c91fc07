// Passes through the list once and tracks the state of each segment's weights and gradients.
#include "terrace/schedule/step/validate_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace terrace::schedule {
namespace {

using StepKind = StepInstruction::Kind;

bool is_gradient_computation(StepKind kind) {
  return kind == StepKind::loss || kind == StepKind::backward || kind == StepKind::input_gradient ||
         kind == StepKind::weight_gradient;
}

// The computations and transfers of a stage's instructions, segment by segment.
StepInstructions expanded(const Instructions& stage, const StageSegments& segments) {
  StepInstructions list;
  for (const auto& [kind, micro_batch, chunk, peer] : stage) {
    std::vector<int64_t> body = segments.chunks.at(static_cast<size_t>(chunk));
    const bool has_loss = !body.empty() && body.back() == segments.last;
    if (has_loss) body.pop_back();
    const auto add = [&, batch = micro_batch, of = chunk](StepKind one, int64_t segment, int64_t to = -1) {
      list.push_back({.kind = one, .micro_batch = batch, .chunk = of, .segment = segment, .peer = to});
    };
    const auto add_down = [&](StepKind one) {
      for (auto segment = body.rbegin(); segment != body.rend(); ++segment) add(one, *segment);
    };
    switch (kind) {
      case Instruction::Kind::forward:
        for (const int64_t segment : body) add(StepKind::forward, segment);
        if (has_loss) add(StepKind::loss, segments.last);
        break;
      case Instruction::Kind::backward:
        add_down(StepKind::backward);
        break;
      case Instruction::Kind::input_gradient:
        add_down(StepKind::input_gradient);
        break;
      case Instruction::Kind::weight_gradient:
        add_down(StepKind::weight_gradient);
        break;
      case Instruction::Kind::send_activation:
        add(StepKind::send_activation, -1, peer);
        break;
      case Instruction::Kind::receive_activation:
        add(StepKind::receive_activation, -1, peer);
        break;
      case Instruction::Kind::send_gradient:
        add(StepKind::send_gradient, -1, peer);
        break;
      case Instruction::Kind::receive_gradient:
        add(StepKind::receive_gradient, -1, peer);
        break;
      case Instruction::Kind::optimizer_step:
        for (const StepKind one : {StepKind::finish_gradients, StepKind::norm, StepKind::update})
          list.push_back({.kind = one});
        break;
    }
  }
  return list;
}

class Check {
 public:
  Check(int64_t micro_batches, const StageSegments& segments, const Movements& movements)
      : micro_batches_(micro_batches), segments_(segments), movements_(movements) {}

  // Why the next instruction is invalid; "" if it is valid.
  std::string next(const StepInstruction& one) {
    switch (one.kind) {
      case StepKind::begin_movement:
        return begin(one);
      case StepKind::end_movement:
        return end(one);
      case StepKind::release:
        if (!gathered_.erase(one.segment)) return "its weights are not gathered";
        arrived_.erase(one.segment);
        return "";
      case StepKind::allocate_gradient:
        if (moving_.contains(one.segment)) return "the reduction of its gradient has not ended";
        return whole_gradients_.insert(one.segment).second ? "" : "its gradient has memory already";
      case StepKind::finish_gradients:
        return finished_gradients();
      case StepKind::norm:
      case StepKind::update:
        done_ = one.kind;
        return "";
      case StepKind::send_activation:
      case StepKind::receive_activation:
      case StepKind::send_gradient:
      case StepKind::receive_gradient:
        return "";
      default:
        return compute(one);
    }
  }

  std::string at_end() const {
    if (done_ != StepKind::update) return "the update is missing";
    if (!gathered_.empty()) return fmt::format("weights of segment {} are never released", *gathered_.begin());
    if (movements_.publishes && published_.size() != segments_.held.size())
      return "not all updated weights are published";
    return "";
  }

 private:
  std::vector<int64_t> reads(int64_t segment) const {
    std::vector<int64_t> list = segments_.reads.at(static_cast<size_t>(segment));
    std::erase_if(list, [&](int64_t read) { return std::ranges::find(segments_.held, read) == segments_.held.end(); });
    return list;
  }

  std::string compute(const StepInstruction& one) {
    if (done_ != StepKind::forward) return "it comes after finish gradients";
    // A weight gradient reads no weights.
    const std::vector<int64_t> needed =
        one.kind == StepKind::weight_gradient ? std::vector<int64_t>{} : reads(one.segment);
    for (const int64_t read : needed) {
      if (movements_.gathers && !arrived_.contains(read))
        return fmt::format("weights of segment {} have not arrived", read);
      if (movements_.publishes && !updated_.contains(read)) {
        return fmt::format("updated weights of segment {} have not been waited for", read);
      }
    }
    if (!is_gradient_computation(one.kind)) return "";
    std::vector<int64_t> added = one.kind == StepKind::weight_gradient ? std::vector<int64_t>{one.segment} : needed;
    std::erase_if(added,
                  [&](int64_t segment) { return std::ranges::find(segments_.held, segment) == segments_.held.end(); });
    for (const int64_t segment : added) {
      if (movements_.reduces_each && !whole_gradients_.contains(segment)) {
        return fmt::format("the gradient of segment {} has no memory", segment);
      }
      if (moving_.contains(segment))
        return fmt::format("the reduction of the gradient of segment {} has not ended", segment);
    }
    // A segment's gradient is complete after its own computation, the gradient of a copy after the loss.
    if (one.kind == StepKind::input_gradient) return "";
    complete(one.segment, one.micro_batch);
    if (one.kind == StepKind::loss) {
      for (const int64_t copy : segments_.copies) complete(copy, one.micro_batch);
    }
    return "";
  }

  void complete(int64_t segment, int64_t micro_batch) { completed_[segment].insert(micro_batch); }

  // Whether the second hop of a movement may begin, or the first.
  std::string check_hop(const StepInstruction& one) {
    const std::vector<Hop> hops = movements_.hops(one.movement);
    if (std::ranges::find(hops, one.hop) == hops.end()) return "the movement has no such hop";
    if (is_first_hop(one)) return "";
    return between_hops_.erase({one.segment, one.movement}) > 0 ? "" : "its first hop has not ended";
  }

  std::string begin(const StepInstruction& one) {
    if (std::string problem = check_hop(one); !problem.empty()) return problem;
    const bool is_second = !is_first_hop(one);
    if (is_second && (one.movement == Movement::gather_weights || one.movement == Movement::publish)) {
      return second_hops_.insert({one.segment, one.movement}).second ? "" : "its second hop has begun already";
    }
    if (one.movement == Movement::gather_weights) {
      if (!movements_.gathers) return "weights are not sharded";
      if (movements_.publishes && !updated_.contains(one.segment))
        return "its updated weights have not been waited for";
      return gathered_.insert(one.segment).second ? "" : "its weights are gathered already";
    }
    if (one.movement == Movement::publish) {
      if (done_ != StepKind::update) return "the update has not been done";
      return published_.insert(one.segment).second ? "" : "its updated weights are published already";
    }
    if (!moving_.emplace(one.segment, one.movement).second) return "another movement of its gradient has not ended";
    if (is_second) return "";
    std::vector<Movement>& past = reductions_[one.segment];
    if (one.movement == Movement::reduce) {
      if (!movements_.reduces_each) return "gradients are not reduced after each micro-batch";
      if (one.accumulates != !past.empty()) return "the first micro-batch writes, later ones add";
      const size_t reduced = past.size();
      if (completed_[one.segment].size() != reduced + 1) return "its gradient is not complete, or has been reduced";
    }
    past.push_back(one.movement);
    return "";
  }

  std::string end(const StepInstruction& one) {
    const std::pair key(one.segment, one.movement);
    if (one.movement == Movement::gather_weights || one.movement == Movement::publish) {
      if (!is_last_hop(one)) return between_hops_.insert(key).second ? "" : "its first hop has ended already";
      if (!is_first_hop(one) && second_hops_.erase(key) == 0) return "its second hop has not begun";
    }
    if (one.movement == Movement::gather_weights) {
      if (!gathered_.contains(one.segment)) return "its weights are not gathered";
      return arrived_.insert(one.segment).second ? "" : "its weights have arrived already";
    }
    if (one.movement == Movement::publish)
      return updated_.insert(one.segment).second ? "" : "its updated weights have been waited for already";
    const auto moving = moving_.find(one.segment);
    if (moving == moving_.end() || moving->second != one.movement) return "this movement has not begun";
    moving_.erase(moving);
    if (!is_last_hop(one)) between_hops_.insert(key);
    if (one.movement == Movement::reduce && is_first_hop(one)) whole_gradients_.erase(one.segment);
    return "";
  }

  std::string finished_gradients() {
    done_ = StepKind::finish_gradients;
    if (!moving_.empty()) return fmt::format("the gradient of segment {} is still moving", moving_.begin()->first);
    if (!between_hops_.empty()) {
      return fmt::format("segment {} lacks the second hop of a movement", between_hops_.begin()->first);
    }
    if (!whole_gradients_.empty())
      return fmt::format("the gradient of segment {} was not reduced", *whole_gradients_.begin());
    std::vector<Movement> expected;
    if (movements_.reduces_each) expected.assign(static_cast<size_t>(micro_batches_), Movement::reduce);
    expected.insert(expected.end(), movements_.after_last.begin(), movements_.after_last.end());
    for (const int64_t segment : segments_.held) {
      if (reductions_[segment] != expected)
        return fmt::format("segment {} lacks a reduction, or has one too many", segment);
    }
    return "";
  }

  int64_t micro_batches_;
  const StageSegments& segments_;
  const Movements& movements_;
  StepKind done_ = StepKind::forward;  // until the first of finish_gradients, norm and update
  std::set<int64_t> gathered_, arrived_, updated_, published_, whole_gradients_;
  std::set<std::pair<int64_t, Movement>> between_hops_, second_hops_;  // by segment: the first ended, the second began
  std::map<int64_t, Movement> moving_;  // by segment: the reduction of its gradient under way
  std::map<int64_t, std::vector<Movement>> reductions_;
  std::map<int64_t, std::set<int64_t>> completed_;  // by segment: micro-batches whose gradient is complete
};

}  // namespace

StepMemory peak_memory(const StepInstructions& list, const std::vector<int64_t>& segment_elements) {
  StepMemory now, peak;
  for (const StepInstruction& one : list) {
    if (one.segment < 0) continue;
    const int64_t elements = segment_elements.at(static_cast<size_t>(one.segment));
    if (one.kind == StepKind::begin_movement && one.movement == Movement::gather_weights && is_first_hop(one))
      now.gathered_weights += elements;
    if (one.kind == StepKind::release) now.gathered_weights -= elements;
    if (one.kind == StepKind::allocate_gradient) now.whole_gradients += elements;
    if (one.kind == StepKind::end_movement && one.movement == Movement::reduce && is_first_hop(one))
      now.whole_gradients -= elements;
    peak.gathered_weights = std::max(peak.gathered_weights, now.gathered_weights);
    peak.whole_gradients = std::max(peak.whole_gradients, now.whole_gradients);
  }
  return peak;
}

std::string validate_step(const StepInstructions& list, const Instructions& stage, int64_t micro_batches,
                          const StageSegments& segments, const Movements& movements) {
  const StepInstructions expected = expanded(stage, segments);
  size_t next_expected = 0;
  Check check(micro_batches, segments, movements);
  for (size_t i = 0; i < list.size(); ++i) {
    const StepInstruction& one = list[i];
    const auto wrong = [&](const std::string& problem) {
      return fmt::format("instruction {}, {}: {}", i, to_string(one), problem);
    };
    const bool moves = one.kind == StepKind::begin_movement || one.kind == StepKind::end_movement ||
                       one.kind == StepKind::release || one.kind == StepKind::allocate_gradient;
    if (!moves && (next_expected == expected.size() || one != expected[next_expected++])) {
      return wrong(next_expected == 0 || next_expected > expected.size()
                       ? "the stage's instructions are done"
                       : fmt::format("{} was expected", to_string(expected[next_expected - 1])));
    }
    if (const std::string problem = check.next(one); !problem.empty()) return wrong(problem);
  }
  if (next_expected != expected.size()) return fmt::format("{} is missing", to_string(expected[next_expected]));
  return check.at_end();
}

}  // namespace terrace::schedule
