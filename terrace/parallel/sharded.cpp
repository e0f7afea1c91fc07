// Implements the movements of a segment's weights and gradients.
#include "terrace/parallel/sharded.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/ops/kernels.h"
#include "terrace/parallel/storage.h"
#include "terrace/parallel/transfer.h"

namespace terrace::parallel {

using schedule::Movement;

struct Sharded::Segment {
  std::optional<ShardedSegment> flat = {};  // none: the segment has no parameters, or this rank does not hold them
  PendingCollective gather = {}, update = {};
  // The gradient's only movement under way, and the sum of a micro-batch that is to be added to earlier ones.
  PendingCollective reduction = {};
  at::Tensor sum = {};
  uint32_t reductions = 0;                          // begun in this step
  std::map<Movement, ErrorFeedback> feedback = {};  // of the reductions whose errors are kept
};

Sharded::Sharded(models::Model& model, const Stage& stage, DataGroups& groups, const ShardingOptions& options)
    : groups_(groups), options_(options), segments_(stage.partition().segments.size()) {
  // If gradients are reduced after each micro-batch, the whole buffer is needed only from backward to the reduction.
  const schedule::Movements movements = schedule::movements_of(groups.place.sizes, options.deterministic);
  const bool keeps_whole = !movements.reduces_each;
  for (const int64_t segment : stage.own().held) {
    std::vector<nn::Parameter*> parameters = segment_parameters(model, stage.segment(segment));
    segments_[segment].flat.emplace(std::move(parameters), groups.place, model.device(), options.gradient_type,
                                    keeps_whole, options.alignment);
    held_.weights += static_cast<int64_t>(segments_[segment].flat->weights().nbytes());
    held_.gradients += static_cast<int64_t>(segments_[segment].flat->gradient().nbytes());
    if (!options.feedback) continue;
    for (const Movement movement : movements.reductions()) {
      if (!collective(movement).rounds_before_sums()) continue;
      const int64_t values =
          schedule::reduced_elements(movement, groups.place.sizes, segments_[segment].flat->padded());
      const auto& [at, added] =
          segments_[segment].feedback.try_emplace(movement, *options.feedback, values, model.device());
      held_.feedback += static_cast<int64_t>(at->second.kept().nbytes());
    }
  }
  peak_ = held_;
}

Sharded::~Sharded() = default;

std::vector<optim::Shard> Sharded::shards() const {
  std::vector<optim::Shard> shards;
  const Collective update = collective(Movement::publish);
  for (const Segment& segment : segments_) {
    if (!segment.flat) continue;
    shards.push_back(segment.flat->shard());
    const bool arrives_rounded = !update.preserves(shards.back().value.scalar_type());
    shards.back().keeps_master = update.route().size() > 1 && arrives_rounded;
  }
  return shards;
}

const ShardedSegment& Sharded::flat(int64_t segment) const {
  const std::optional<ShardedSegment>& flat = segments_.at(static_cast<size_t>(segment)).flat;
  TERRACE_CHECK(flat.has_value(), "segment {} has no parameters here", segment);
  return *flat;
}

void Sharded::begin_step(uint64_t seed, int64_t step) {
  const at::NoGradGuard no_grad;
  const PhiloxBlock block = philox_at(stream_key(seed, "rounding of gradients"), static_cast<uint64_t>(step), 0);
  rounding_key_ = {block[0], block[1]};
  for (Segment& segment : segments_) {
    segment.reductions = 0;
    if (segment.flat && segment.flat->keeps_whole_gradient()) segment.flat->clear_whole_gradient(options_.poison);
  }
}

Collective Sharded::reduction(Movement movement, int64_t segment) {
  Segment& of = segments_.at(static_cast<size_t>(segment));
  const uint32_t number = of.reductions++;
  const auto feedback = of.feedback.find(movement);
  // Members are ordered by their parts, which depend on the layout; the data coordinate does not.
  const int64_t sender = groups_.place.everyone.at(static_cast<size_t>(groups_.everyone->member()));
  return collective_of(
      movement, groups_, options_,
      {.key = rounding_key_, .words = {static_cast<uint32_t>(segment), number, static_cast<uint32_t>(sender)}},
      feedback == of.feedback.end() ? nullptr : &feedback->second);
}

PendingCollective& Sharded::pending(int64_t segment, Movement movement) {
  Segment& of = segments_.at(static_cast<size_t>(segment));
  return movement == Movement::gather_weights ? of.gather : movement == Movement::publish ? of.update : of.reduction;
}

PendingCollective Sharded::gather(int64_t index, bool for_backward) {
  const at::Tensor& whole = flat(index).whole_weights();
  take(whole, &StateBytes::gathered_weights);
  const at::NoGradGuard no_grad;
  if (options_.poison) whole.fill_(std::numeric_limits<float>::quiet_NaN());
  return collective(Movement::gather_weights)
      .all_gather(flat(index).weights(), whole,
                  {.what = to_string(Movement::gather_weights),
                   .segment = index,
                   .phase = for_backward ? "backward" : "forward"});
}

PendingCollective Sharded::reduce(int64_t index, bool accumulates) {
  const at::Tensor kept = options_.deterministic ? flat(index).own_gradient() : flat(index).gradient();
  at::Tensor& sum = segments_[static_cast<size_t>(index)].sum;
  sum = accumulates ? at::empty_like(kept) : kept;
  return reduction(Movement::reduce, index)
      .reduce_scatter(flat(index).whole_gradient(), sum,
                      {.what = to_string(Movement::reduce), .segment = index, .phase = "backward"});
}

void Sharded::begin(const schedule::StepInstruction& instruction) {
  const int64_t index = instruction.segment;
  const Movement movement = instruction.movement;
  PendingCollective& begun = pending(index, movement);
  if (!schedule::is_first_hop(instruction)) return begun.begin_call();
  const ShardedSegment& own = flat(index);
  const comm::Label label{.what = to_string(movement), .segment = index, .phase = "backward"};
  switch (movement) {
    case Movement::gather_weights:
      begun = gather(index, instruction.for_backward);
      return;
    case Movement::reduce:
      begun = reduce(index, instruction.accumulates);
      return;
    case Movement::reduce_across:
      begun = reduction(movement, index).reduce_scatter(own.gradient(), own.optimizer_gradient(), label);
      return;
    case Movement::reduce_replicas:
      begun = reduction(movement, index).all_reduce(own.optimizer_gradient(), label);
      return;
    case Movement::gather_gradients:
      begun = collective(movement).all_gather(own.own_gradient(), own.optimizer_gradient(), label);
      return;
    case Movement::publish:
      begun = collective(movement).all_gather(own.optimizer_weights(), own.weights(),
                                              {.what = to_string(movement), .segment = index, .phase = "step"});
      return;
  }
}

void Sharded::end(const schedule::StepInstruction& instruction) {
  const int64_t index = instruction.segment;
  Segment& segment = segments_.at(static_cast<size_t>(index));
  PendingCollective& begun = pending(index, instruction.movement);
  // Only two hops of a list are waited for one by one.
  if (instruction.hop == schedule::Hop::whole) {
    begun.finish();
  } else {
    begun.end_call();
  }
  if (instruction.movement != Movement::reduce) return;
  if (is_first_hop(instruction)) give_back(segment.flat->whole_gradient(), &StateBytes::whole_gradients);
  if (!is_last_hop(instruction)) return;
  const at::Tensor kept = options_.deterministic ? segment.flat->own_gradient() : segment.flat->gradient();
  if (instruction.accumulates) ops::kernels(kept.device()).add(kept, segment.sum);
  segment.sum.reset();
}

void Sharded::release(int64_t segment) { give_back(flat(segment).whole_weights(), &StateBytes::gathered_weights); }

void Sharded::allocate_gradient(int64_t segment) {
  take(flat(segment).whole_gradient(), &StateBytes::whole_gradients);
  const at::NoGradGuard no_grad;
  flat(segment).clear_whole_gradient(options_.poison);
}

void Sharded::collect_gradient(int64_t segment) {
  const std::optional<ShardedSegment>& own = segments_.at(static_cast<size_t>(segment)).flat;
  if (own) nn::collect_autograd_gradients(own->parameters());
}

void Sharded::publish() {
  if (groups_.place.update.size() == 1) return;
  for (size_t i = 0; i < segments_.size(); ++i) {
    if (!segments_[i].flat) continue;
    begin({.kind = schedule::StepInstruction::Kind::begin_movement,
           .segment = static_cast<int64_t>(i),
           .movement = Movement::publish});
  }
}

void Sharded::finish_update() {
  for (Segment& segment : segments_) segment.update.finish();
}

void Sharded::spread(const at::Tensor& optimizer_part, const char* what) {
  comm::Comm& group = *groups_.replicas;
  const int64_t size = optimizer_part.numel() / group.size();
  Transfer::all_gather(group, optimizer_part.narrow(0, group.member() * size, size), optimizer_part,
                       optimizer_part.scalar_type(), {.what = what})
      .finish();
}

std::vector<KeptErrors> Sharded::kept_errors() const {
  std::vector<KeptErrors> kept;
  for (size_t i = 0; i < segments_.size(); ++i) {
    for (const auto& [movement, feedback] : segments_[i].feedback) {
      kept.push_back({static_cast<int64_t>(i), movement, feedback.kept()});
    }
  }
  return kept;
}

void Sharded::forget_errors() {
  for (Segment& segment : segments_) {
    for (auto& [movement, feedback] : segment.feedback) feedback.forget();
  }
}

void Sharded::scale_errors(double factor) {
  for (Segment& segment : segments_) {
    for (auto& [movement, feedback] : segment.feedback) feedback.scale(factor);
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
