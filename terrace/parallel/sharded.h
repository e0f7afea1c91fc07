// Sharded data parallelism of any model: gathers weights before a unit uses them and gives them back after it, reduces
// gradients as soon as a unit's backward is complete, and gathers updated weights while the next forward runs. Knows of
// a model only its units. docs/sharding.md says what moves when.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "terrace/comm/comm.h"
#include "terrace/config/config.h"
#include "terrace/models/model.h"
#include "terrace/optim/shard.h"
#include "terrace/parallel/groups.h"
#include "terrace/parallel/sharded_unit.h"
#include "terrace/parallel/stage.h"

namespace terrace::parallel {

struct ShardingOptions {
  at::ScalarType gradient_type = at::kFloat;
  int64_t prefetch = 1;  // units
  config::WireType gather_type = config::WireType::same, reduce_type = config::WireType::same,
                   update_type = config::WireType::same;
  bool deterministic = false;
  // For tests: whole weights are NaN until they are gathered, so that a use at the wrong time shows.
  bool poison = false;
};

ShardingOptions sharding_options(const config::LayoutConfig& layout, at::ScalarType gradient_type);

// Bytes of tensors that this rank holds, by what they are for; docs/sharding.md has the formula.
struct StateBytes {
  int64_t weights = 0;           // parts that stay
  int64_t gathered_weights = 0;  // whole units
  int64_t gradients = 0;         // parts that stay
  int64_t whole_gradients = 0;   // whole units, from their backward until they are reduced

  bool operator==(const StateBytes&) const = default;
};

// That a unit's weights are used once, in "forward" or "backward".
struct UnitUse {
  int64_t unit = 0;
  const char* phase = "";
};

class Sharded {
 public:
  // Takes over the parameters of the units that the stage has; all outlive it. `groups` serve no one else meanwhile.
  Sharded(models::Model& model, const Stage& stage, DataGroups& groups, const ShardingOptions& options);
  ~Sharded();

  // The optimizer's part of each unit with parameters, in the order of the units.
  std::vector<optim::Shard> shards() const;

  // The uses that come now, in their order: what is gathered ahead. Weights of uses that were not told are gathered
  // when they begin.
  void expect(std::vector<UnitUse> uses);

  // Before and after a unit's forward, and its backward. Between the two the weights that it uses have their values,
  // and in backward the gradients of its parameters memory.
  void before_forward(int64_t unit);
  void after_forward(int64_t unit);
  void before_backward(int64_t unit);
  // `weights_later`: the gradients of its weights are not all there yet, and complete_gradient() will be called.
  void after_backward(int64_t unit, bool weights_later);
  // Around gradients of weights that are computed later: the gradients have memory, and are complete.
  void take_gradient(int64_t unit);
  void complete_gradient(int64_t unit);

  // At the beginning of a step: gradients are zero.
  void begin_step();
  // Before gradients of a micro-batch are complete: whether it is the first of this step, and whether the last.
  void begin_backward(bool first, bool last);
  // After the last backward: every rank's optimizer part of the gradients is the sum over all ranks and micro-batches.
  void finish_gradients();

  // Starts to gather the updated weights, after the optimizer has written its part. Ends before they are used.
  void publish();
  // Waits for that.
  void finish_update();

  // [n] of the optimizer's part of a unit, of which each rank filled the elements that it alone answers for: gets those
  // of the other ranks that hold the same part.
  void spread(const at::Tensor& optimizer_part, const char* what);

  const StateBytes& bytes() const { return held_; }
  // The most of each so far.
  const StateBytes& peak_bytes() const { return peak_; }

 private:
  struct Unit;
  struct Reduction;

  std::vector<int64_t> sharded_units_of(int64_t unit) const;
  void use(int64_t unit, const char* phase);
  void leave(int64_t unit);
  void start_gathers(const UnitUse& use);
  void start_gather(int64_t unit, const char* phase);
  void gather_ahead();
  Reduction reduction_of(int64_t unit);
  // Memory of a whole unit, counted.
  void take(const at::Tensor& whole, int64_t StateBytes::*category);
  void give_back(const at::Tensor& whole, int64_t StateBytes::*category);
  // Waits for what each reduction under way does and starts what it does next.
  void advance_reductions();

  DataGroups& groups_;
  ShardingOptions options_;
  std::vector<Unit> units_;
  std::vector<Reduction> reductions_;  // under way, in the order of their begin
  std::vector<UnitUse> expected_;
  size_t next_use_ = 0;
  bool first_ = true, last_ = true;
  StateBytes held_, peak_;
};

}  // namespace terrace::parallel
