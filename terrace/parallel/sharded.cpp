// Implements the movements of a segment's weights and gradients.
#include "terrace/parallel/sharded.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/ops/kernels.h"
#include "terrace/optim/digest.h"
#include "terrace/parallel/storage.h"
#include "terrace/parallel/transfer.h"

namespace terrace::parallel {

using schedule::Movement;

// The parameters of one type in a segment, and what is under way with them.
struct Sharded::Flat {
  DataGroups& groups;
  schedule::Movements movements;
  ShardedSegment own;
  PendingCollective gather = {}, update = {};
  // The gradient's only movement under way, and the sum of a micro-batch that is to be added to earlier ones.
  PendingCollective reduction = {};
  at::Tensor sum = {};
  std::map<Movement, ErrorFeedback> feedback = {};  // of the reductions whose errors are kept

  // Whether the groups of these parameters need the movement: those of experts may need others than the list has, and
  // those beside them may not need all of it.
  bool needs(Movement movement) const { return movements.has(movement); }
  PendingCollective& pending(Movement movement) {
    return movement == Movement::gather_weights ? gather : movement == Movement::publish ? update : reduction;
  }
};

struct Sharded::Segment {
  // The flat buffers by type, in the order of the parameters; none: the segment has no parameters, or this rank does
  // not hold them.
  std::vector<Flat> flats = {};
  uint32_t reductions = 0;  // begun in this step
};

namespace {

bool is_divided_by_experts(const nn::Parameter& parameter) { return parameter.mark.axis == "experts"; }

// The parameters by their types and by whether they are of experts, in the order in which these first occur.
std::vector<std::vector<nn::Parameter*>> by_type(const std::vector<nn::Parameter*>& parameters) {
  std::vector<std::vector<nn::Parameter*>> lists;
  for (nn::Parameter* parameter : parameters) {
    const auto same = std::ranges::find_if(lists, [&](const auto& list) {
      return list.front()->value.scalar_type() == parameter->value.scalar_type() &&
             is_divided_by_experts(*list.front()) == is_divided_by_experts(*parameter);
    });
    if (same == lists.end()) {
      lists.push_back({parameter});
    } else {
      same->push_back(parameter);
    }
  }
  return lists;
}

}  // namespace

Sharded::Sharded(models::Model& model, const Stage& stage, DataGroups& groups, DataGroups* experts,
                 const ShardingOptions& options)
    : groups_(groups), experts_(experts), options_(options), segments_(stage.partition().segments.size()) {
  for (const int64_t number : stage.own().held) {
    for (std::vector<nn::Parameter*>& parameters : by_type(segment_parameters(model, stage.segment(number)))) {
      DataGroups& own = is_divided_by_experts(*parameters.front()) ? *experts_ : groups_;
      const schedule::Movements movements = schedule::movements_of(own.place.sizes, options.deterministic);
      // If gradients are reduced after each micro-batch, the whole buffer is needed only from backward to the
      // reduction.
      const bool keeps_whole = !movements.reduces_each;
      Flat& flat = segments_[number].flats.emplace_back(
          Flat{.groups = own,
               .movements = movements,
               .own = ShardedSegment(std::move(parameters), own.place, model.device(), options.gradient_type,
                                     keeps_whole, options.alignment)});
      held_.weights += static_cast<int64_t>(flat.own.weights().nbytes());
      held_.gradients += static_cast<int64_t>(flat.own.gradient().nbytes());
      if (!options.feedback) continue;
      for (const Movement movement : movements.reductions()) {
        if (!collective_of(movement, own, options_).rounds_before_sums()) continue;
        const int64_t values = schedule::reduced_elements(movement, own.place.sizes, flat.own.padded());
        const auto& [at, added] = flat.feedback.try_emplace(movement, *options.feedback, values, model.device());
        held_.feedback += static_cast<int64_t>(at->second.kept().nbytes());
      }
    }
  }
  peak_ = held_;
}

Sharded::~Sharded() = default;

std::vector<optim::Shard> Sharded::shards() const {
  std::vector<optim::Shard> shards;
  for (size_t number = 0; number < segments_.size(); ++number) {
    for (const Flat& flat : segments_[number].flats) {
      const Collective update = collective_of(Movement::publish, flat.groups, options_);
      shards.push_back(flat.own.shard());
      shards.back().segment = static_cast<int64_t>(number);
      shards.back().of_experts = &flat.groups == experts_;
      const bool arrives_rounded = !update.preserves(shards.back().value.scalar_type());
      shards.back().keeps_master = update.route().size() > 1 && arrives_rounded;
    }
  }
  return shards;
}

std::vector<HeldWeights> Sharded::held_weights() const {
  std::vector<HeldWeights> held;
  for (size_t number = 0; number < segments_.size(); ++number) {
    for (const Flat& flat : segments_[number].flats) {
      held.push_back({static_cast<int64_t>(number), flat.own.weights(), flat.own.pieces_in(flat.groups.place.weights)});
    }
  }
  return held;
}

Sharded::Segment& Sharded::segment(int64_t number) {
  Segment& segment = segments_.at(static_cast<size_t>(number));
  TERRACE_CHECK(!segment.flats.empty(), "segment {} has no parameters here", number);
  return segment;
}

void Sharded::begin_step(uint64_t seed, int64_t step) {
  const at::NoGradGuard no_grad;
  const PhiloxBlock block = philox_at(stream_key(seed, "rounding of gradients"), static_cast<uint64_t>(step), 0);
  rounding_key_ = {block[0], block[1]};
  gathered_digests_.assign(watches_gathered_ ? segments_.size() : 0, 0);
  for (Segment& segment : segments_) {
    segment.reductions = 0;
    for (const Flat& flat : segment.flats) {
      if (flat.own.keeps_whole_gradient()) flat.own.clear_whole_gradient(options_.poison);
    }
  }
}

Collective Sharded::reduction(Movement movement, int64_t number, Flat& flat) {
  const uint32_t reduction = segment(number).reductions++;
  const auto feedback = flat.feedback.find(movement);
  // Members are ordered by their parts, which depend on the layout; the coordinate does not.
  return collective_of(
      movement, flat.groups, options_,
      {.key = rounding_key_,
       .words = {static_cast<uint32_t>(number), reduction, static_cast<uint32_t>(flat.groups.coordinate)}},
      feedback == flat.feedback.end() ? nullptr : &feedback->second);
}

PendingCollective Sharded::gather(const Flat& flat, int64_t segment, bool for_backward) {
  const ShardedSegment& own = flat.own;
  const at::Tensor& whole = own.whole_weights();
  take(whole, &StateBytes::gathered_weights);
  const at::NoGradGuard no_grad;
  if (options_.poison) whole.fill_(std::numeric_limits<float>::quiet_NaN());
  return collective_of(Movement::gather_weights, flat.groups, options_)
      .all_gather(own.weights(), whole,
                  {.what = to_string(Movement::gather_weights),
                   .segment = segment,
                   .phase = for_backward ? "backward" : "forward"});
}

PendingCollective Sharded::reduce(Flat& flat, int64_t segment, bool accumulates) {
  const at::Tensor kept = options_.deterministic ? flat.own.own_gradient() : flat.own.gradient();
  flat.sum = accumulates ? at::empty_like(kept) : kept;
  return reduction(Movement::reduce, segment, flat)
      .reduce_scatter(flat.own.whole_gradient(), flat.sum,
                      {.what = to_string(Movement::reduce), .segment = segment, .phase = "backward"});
}

void Sharded::begin(const schedule::StepInstruction& instruction) {
  for (Flat& flat : segment(instruction.segment).flats) {
    if (flat.needs(instruction.movement)) begin(instruction, flat);
  }
}

void Sharded::begin(const schedule::StepInstruction& instruction, Flat& flat) {
  const int64_t index = instruction.segment;
  const Movement movement = instruction.movement;
  PendingCollective& begun = flat.pending(movement);
  if (!schedule::is_first_hop(instruction)) return begun.begin_call();
  const ShardedSegment& own = flat.own;
  const comm::Label label{.what = to_string(movement), .segment = index, .phase = "backward"};
  switch (movement) {
    case Movement::gather_weights:
      begun = gather(flat, index, instruction.for_backward);
      return;
    case Movement::reduce:
      begun = reduce(flat, index, instruction.accumulates);
      return;
    case Movement::reduce_across:
      begun = reduction(movement, index, flat).reduce_scatter(own.gradient(), own.optimizer_gradient(), label);
      return;
    case Movement::reduce_replicas:
      begun = reduction(movement, index, flat).all_reduce(own.optimizer_gradient(), label);
      return;
    case Movement::gather_gradients:
      begun = collective_of(movement, flat.groups, options_)
                  .all_gather(own.own_gradient(), own.optimizer_gradient(), label);
      return;
    case Movement::publish:
      begun = collective_of(movement, flat.groups, options_)
                  .all_gather(own.optimizer_weights(), own.weights(),
                              {.what = to_string(movement), .segment = index, .phase = "step"});
      return;
  }
}

void Sharded::end(const schedule::StepInstruction& instruction) {
  for (Flat& flat : segment(instruction.segment).flats) {
    if (flat.needs(instruction.movement)) end(instruction, flat);
  }
}

void Sharded::end(const schedule::StepInstruction& instruction, Flat& flat) {
  PendingCollective& begun = flat.pending(instruction.movement);
  // Only two hops of a list are waited for one by one.
  if (instruction.hop == schedule::Hop::whole) {
    begun.finish();
  } else {
    begun.end_call();
  }
  if (instruction.movement != Movement::reduce) return;
  if (is_first_hop(instruction)) give_back(flat.own.whole_gradient(), &StateBytes::whole_gradients);
  if (!is_last_hop(instruction)) return;
  const at::Tensor kept = options_.deterministic ? flat.own.own_gradient() : flat.own.gradient();
  if (instruction.accumulates) ops::kernels(kept.device()).add(kept, flat.sum);
  flat.sum.reset();
}

void Sharded::release(int64_t number) {
  for (const Flat& flat : segment(number).flats) {
    if (!flat.own.cuts_weights()) continue;
    if (watches_gathered_) {
      uint64_t& digest = gathered_digests_.at(static_cast<size_t>(number));
      digest = optim::followed_by(digest, optim::digest_of(flat.own.whole_weights()));
    }
    give_back(flat.own.whole_weights(), &StateBytes::gathered_weights);
  }
}

void Sharded::allocate_gradient(int64_t number) {
  const at::NoGradGuard no_grad;
  for (const Flat& flat : segment(number).flats) {
    if (flat.own.keeps_whole_gradient()) continue;
    take(flat.own.whole_gradient(), &StateBytes::whole_gradients);
    flat.own.clear_whole_gradient(options_.poison);
  }
}

void Sharded::collect_gradient(int64_t number) {
  for (const Flat& flat : segments_.at(static_cast<size_t>(number)).flats) {
    nn::collect_autograd_gradients(flat.own.parameters());
  }
}

void Sharded::publish() {
  if (groups_.place.update.size() == 1 && (experts_ == nullptr || experts_->place.update.size() == 1)) return;
  for (size_t i = 0; i < segments_.size(); ++i) {
    if (segments_[i].flats.empty()) continue;
    begin({.kind = schedule::StepInstruction::Kind::begin_movement,
           .segment = static_cast<int64_t>(i),
           .movement = Movement::publish});
  }
}

void Sharded::finish_update() {
  for (Segment& segment : segments_) {
    for (Flat& flat : segment.flats) flat.update.finish();
  }
}

void Sharded::spread(const optim::Shard& shard, const at::Tensor& optimizer_part, const char* what) {
  comm::Comm& group = shard.of_experts ? *experts_->replicas : *groups_.replicas;
  const int64_t size = optimizer_part.numel() / group.size();
  Transfer::all_gather(group, optimizer_part.narrow(0, group.member() * size, size), optimizer_part,
                       optimizer_part.scalar_type(), {.what = what})
      .finish();
}

std::vector<KeptErrors> Sharded::kept_errors() const {
  std::vector<KeptErrors> kept;
  for (size_t i = 0; i < segments_.size(); ++i) {
    const std::vector<Flat>& flats = segments_[i].flats;
    for (size_t flat = 0; flat < flats.size(); ++flat) {
      for (const auto& [movement, feedback] : flats[flat].feedback) {
        kept.push_back({static_cast<int64_t>(i), static_cast<int64_t>(flat), movement, feedback.kept()});
      }
    }
  }
  return kept;
}

void Sharded::forget_errors() {
  for (Segment& segment : segments_) {
    for (Flat& flat : segment.flats) {
      for (auto& [movement, feedback] : flat.feedback) feedback.forget();
    }
  }
}

void Sharded::scale_errors(double factor) {
  for (Segment& segment : segments_) {
    for (Flat& flat : segment.flats) {
      for (auto& [movement, feedback] : flat.feedback) feedback.scale(factor);
    }
  }
}

void Sharded::take(const at::Tensor& whole, int64_t StateBytes::*category) {
  take_storage(whole);
  held_.*category += static_cast<int64_t>(whole.nbytes());
  peak_.*category = std::max(peak_.*category, held_.*category);
}

void Sharded::give_back(const at::Tensor& whole, int64_t StateBytes::*category) {
  release_storage(whole);
  held_.*category -= static_cast<int64_t>(whole.nbytes());
}

}  // namespace terrace::parallel
