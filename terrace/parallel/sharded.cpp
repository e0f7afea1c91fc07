// When weights come and go, and when gradients leave.
#include "terrace/parallel/sharded.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/ops/kernels.h"
#include "terrace/parallel/storage.h"
#include "terrace/parallel/transfer.h"

namespace terrace::parallel {

struct Sharded::Unit {
  std::optional<ShardedUnit> flat = {};  // none: it has no parameters of its own
  std::vector<int64_t> uses = {};        // units whose parameters it reads
  int64_t users = 0;                     // units between their beginning and end that read this one's
  bool gathered = false;                 // or on the way
  Transfer gather = {}, update = {};
};

// Movements of one unit's gradient, one after another.
struct Sharded::Reduction {
  int64_t unit = 0;
  struct Stage {
    std::function<Transfer()> start;
    std::function<void()> finished;
  };
  std::vector<Stage> stages = {};
  size_t next = 0;
  Transfer transfer = {};

  bool complete() const { return next > stages.size(); }

  void advance() {
    transfer.finish();
    if (next > 0) stages[next - 1].finished();
    if (next < stages.size()) transfer = stages[next].start();
    ++next;
  }
};

ShardingOptions sharding_options(const config::LayoutConfig& layout, at::ScalarType gradient_type) {
  return {.gradient_type = gradient_type,
          .prefetch = layout.prefetch,
          .gather_type = layout.gather_type,
          .reduce_type = layout.reduce_type,
          .update_type = layout.update_type,
          .deterministic = layout.deterministic};
}

Sharded::Sharded(models::Model& model, const Stage& stage, DataGroups& groups, const ShardingOptions& options)
    : groups_(groups), options_(options), units_(static_cast<size_t>(model.num_units())) {
  const bool one_rank = groups.place.sizes.ranks == 1;
  // Gradients of a micro-batch that leave before the next one comes need the whole buffer only on their way.
  const bool keeps_whole = one_rank || (groups.place.gradients.parts == 1 && !options.deterministic);
  for (int64_t unit = 0; unit < model.num_units(); ++unit) {
    if (stage.computes(unit)) units_[unit].uses = model.used_units(unit);
  }
  for (const int64_t unit : stage.held()) {
    std::vector<nn::Parameter*> parameters = model.unit_parameters(unit);
    if (parameters.empty()) continue;
    units_[unit].flat.emplace(std::move(parameters), groups.place, options.gradient_type, keeps_whole);
    held_.weights += static_cast<int64_t>(units_[unit].flat->weights().nbytes());
    held_.gradients += static_cast<int64_t>(units_[unit].flat->gradient().nbytes());
  }
  peak_ = held_;
}

Sharded::~Sharded() = default;

std::vector<optim::Shard> Sharded::shards() const {
  std::vector<optim::Shard> shards;
  for (const Unit& unit : units_) {
    if (!unit.flat) continue;
    shards.push_back(unit.flat->shard());
    const at::ScalarType kept = shards.back().value.scalar_type();
    shards.back().keeps_master = groups_.update->size() > 1 && wire_type(options_.update_type, kept) != kept;
  }
  return shards;
}

std::vector<int64_t> Sharded::sharded_units_of(int64_t unit) const {
  std::vector<int64_t> list;
  if (unit < 0 || unit >= static_cast<int64_t>(units_.size())) return list;
  for (const int64_t used : units_[unit].uses) {
    if (units_[used].flat) list.push_back(used);
  }
  return list;
}

void Sharded::start_gather(int64_t index, const char* phase) {
  Unit& unit = units_[index];
  if (unit.gathered || !unit.flat->cuts_weights()) return;
  unit.update.finish();
  const at::Tensor& whole = unit.flat->whole_weights();
  take(whole, &StateBytes::gathered_weights);
  const at::NoGradGuard no_grad;
  if (options_.poison) whole.fill_(std::numeric_limits<float>::quiet_NaN());
  unit.gather = Transfer::all_gather(*groups_.gather, unit.flat->weights(), whole,
                                     wire_type(options_.gather_type, whole.scalar_type()),
                                     {.what = "gather weights", .unit = index, .phase = phase});
  unit.gathered = true;
}

void Sharded::start_gathers(const UnitUse& use) {
  for (const int64_t used : sharded_units_of(use.unit)) start_gather(used, use.phase);
}

void Sharded::gather_ahead() {
  const size_t end = std::min(expected_.size(), next_use_ + static_cast<size_t>(options_.prefetch));
  for (size_t i = next_use_; i < end; ++i) start_gathers(expected_[i]);
}

void Sharded::expect(std::vector<UnitUse> uses) {
  expected_ = std::move(uses);
  next_use_ = 0;
}

void Sharded::use(int64_t index, const char* phase) {
  if (next_use_ < expected_.size()) {
    TERRACE_CHECK(expected_[next_use_].unit == index, "unit {} is used where unit {} was expected", index,
                  expected_[next_use_].unit);
    ++next_use_;
  }
  start_gathers({.unit = index, .phase = phase});
  gather_ahead();
  for (const int64_t used : sharded_units_of(index)) {
    Unit& unit = units_[used];
    unit.update.finish();
    unit.gather.finish();
    ++unit.users;
  }
}

void Sharded::leave(int64_t index) {
  for (const int64_t used : sharded_units_of(index)) {
    Unit& unit = units_[used];
    TERRACE_CHECK(unit.users > 0, "unit {} ends what it has not begun", index);
    if (--unit.users > 0 || !unit.gathered) continue;
    give_back(unit.flat->whole_weights(), &StateBytes::gathered_weights);
    unit.gathered = false;
  }
  // It may itself be the next one.
  gather_ahead();
}

void Sharded::before_forward(int64_t unit) { use(unit, "forward"); }

void Sharded::after_forward(int64_t unit) { leave(unit); }

void Sharded::take_gradient(int64_t index) {
  if (!units_[index].flat) return;
  const ShardedUnit& flat = *units_[index].flat;
  if (flat.keeps_whole_gradient()) return;
  // That of the micro-batch before may still be on its way.
  const auto is_leaving = [&] { return std::ranges::find(reductions_, index, &Reduction::unit) != reductions_.end(); };
  while (is_leaving()) advance_reductions();
  if (has_storage(flat.whole_gradient())) return;
  take(flat.whole_gradient(), &StateBytes::whole_gradients);
  const at::NoGradGuard no_grad;
  flat.whole_gradient().zero_();
}

void Sharded::before_backward(int64_t unit) {
  use(unit, "backward");
  for (const int64_t used : sharded_units_of(unit)) take_gradient(used);
}

void Sharded::after_backward(int64_t index, bool weights_later) {
  leave(index);
  advance_reductions();
  if (!weights_later) complete_gradient(index);
}

void Sharded::complete_gradient(int64_t index) {
  Unit& unit = units_[index];
  if (!unit.flat) return;
  nn::collect_autograd_gradients(unit.flat->parameters());
  Reduction reduction = reduction_of(index);
  if (reduction.stages.empty()) return;
  reduction.advance();
  reductions_.push_back(std::move(reduction));
}

Sharded::Reduction Sharded::reduction_of(int64_t index) {
  const ShardedUnit& flat = *units_[index].flat;
  const mesh::ShardPlace& place = groups_.place;
  const bool first = first_, last = last_;
  const at::ScalarType wire = wire_type(options_.reduce_type, options_.gradient_type);
  const auto label = [index](const char* what) {
    return comm::Label{.what = what, .unit = index, .phase = "backward"};
  };
  Reduction reduction{.unit = index};
  if (!flat.keeps_whole_gradient()) {
    // Over all ranks at once, or over the ranks that share the gradients.
    const at::Tensor kept = options_.deterministic ? flat.own_gradient() : flat.gradient();
    comm::Comm& group = options_.deterministic ? *groups_.everyone : *groups_.reduce;
    const at::Tensor sum = first ? kept : at::empty_like(kept);
    reduction.stages.push_back({[=, &group, &flat] {
                                  return Transfer::reduce_scatter(group, flat.whole_gradient(), sum, wire,
                                                                  label("reduce gradients"));
                                },
                                [=, this, &flat] {
                                  if (!first) ops::kernels(kept.device()).add(kept, sum);
                                  give_back(flat.whole_gradient(), &StateBytes::whole_gradients);
                                }});
  }
  if (!last) return reduction;
  const at::Tensor part = flat.optimizer_gradient();
  if (options_.deterministic && place.sizes.ranks > 1) {
    if (groups_.replicas->size() == 1) return reduction;
    reduction.stages.push_back({[=, this, &flat] {
                                  return Transfer::all_gather(*groups_.replicas, flat.own_gradient(), part,
                                                              part.scalar_type(), label("gather gradients"));
                                },
                                [] {}});
    return reduction;
  }
  if (groups_.reduce_across->size() > 1) {
    reduction.stages.push_back({[=, this, &flat] {
                                  return Transfer::reduce_scatter(*groups_.reduce_across, flat.gradient(), part, wire,
                                                                  label("reduce gradients across"));
                                },
                                [] {}});
  }
  if (groups_.replicas->size() > 1) {
    reduction.stages.push_back(
        {[=, this] { return Transfer::all_reduce(*groups_.replicas, part, wire, label("all-reduce gradients")); },
         [] {}});
  }
  return reduction;
}

void Sharded::advance_reductions() {
  for (Reduction& reduction : reductions_) reduction.advance();
  std::erase_if(reductions_, [](const Reduction& reduction) { return reduction.complete(); });
}

void Sharded::begin_step() {
  const at::NoGradGuard no_grad;
  for (const Unit& unit : units_) {
    if (unit.flat && unit.flat->keeps_whole_gradient()) unit.flat->whole_gradient().zero_();
  }
}

void Sharded::begin_backward(bool first, bool last) {
  first_ = first;
  last_ = last;
}

void Sharded::finish_gradients() {
  while (!reductions_.empty()) advance_reductions();
}

void Sharded::publish() {
  if (groups_.update->size() == 1) return;
  for (size_t i = 0; i < units_.size(); ++i) {
    Unit& unit = units_[i];
    if (!unit.flat) continue;
    const at::ScalarType kept = unit.flat->weights().scalar_type();
    unit.update = Transfer::all_gather(
        *groups_.update, unit.flat->optimizer_weights(), unit.flat->weights(), wire_type(options_.update_type, kept),
        {.what = "gather updated weights", .unit = static_cast<int64_t>(i), .phase = "step"});
  }
}

void Sharded::finish_update() {
  for (Unit& unit : units_) unit.update.finish();
}

void Sharded::spread(const at::Tensor& optimizer_part, const char* what) {
  comm::Comm& group = *groups_.replicas;
  const int64_t size = optimizer_part.numel() / group.size();
  Transfer::all_gather(group, optimizer_part.narrow(0, group.member() * size, size), optimizer_part,
                       optimizer_part.scalar_type(), {.what = what})
      .finish();
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
