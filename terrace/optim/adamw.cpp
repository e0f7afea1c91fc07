// Loops over shards and their pieces; the arithmetic is in the kernels.
#include "terrace/optim/adamw.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>

#include <utility>

#include "terrace/base/error.h"
#include "terrace/optim/kernels.h"

namespace terrace::optim {

AdamW::AdamW(std::vector<Shard> shards, const config::OptimizerConfig& config) : config_(config) {
  const at::NoGradGuard no_grad;
  for (Shard& shard : shards) {
    const at::Tensor value = shard.value;
    TERRACE_CHECK(value.is_contiguous() && value.dim() == 1, "a shard is a flat buffer");
    const bool is_master = value.scalar_type() == at::kFloat && !shard.keeps_master;
    const at::Tensor zeros = at::zeros_like(value, value.options().dtype(at::kFloat));
    states_.push_back({std::move(shard), is_master ? value : value.to(at::kFloat, false, true), zeros, zeros.clone()});
  }
}

void AdamW::step(double learning_rate, double gradient_multiplier) {
  const at::NoGradGuard no_grad;
  ++count;
  AdamWStep numbers{.learning_rate = learning_rate,
                    .weight_decay = 0,
                    .beta1 = config_.beta1,
                    .beta2 = config_.beta2,
                    .epsilon = config_.epsilon,
                    .gradient_multiplier = gradient_multiplier,
                    .count = count};
  for (State& state : states_) {
    for (const ShardPiece& piece : state.shard.pieces) {
      const auto own = [&](const at::Tensor& tensor) { return tensor.narrow(0, piece.at, piece.size()); };
      numbers.weight_decay = piece.parameter->decay ? config_.weight_decay : 0.0;
      at::Tensor master = own(state.master), m = own(state.m), v = own(state.v);
      // A separate master of an fp32 value exists because publishing rounds the value; here it is copied without
      // rounding.
      const bool is_rounded = state.shard.value.scalar_type() != at::kFloat;
      at::Tensor value = is_rounded ? own(state.shard.value) : master;
      adamw_step(numbers, own(state.shard.gradient), master, m, v, value);
      if (!is_rounded && !state.master.is_same(state.shard.value)) own(state.shard.value).copy_(master);
    }
  }
}

void AdamW::publish_masters() {
  const at::NoGradGuard no_grad;
  for (State& state : states_) {
    if (!state.master.is_same(state.shard.value)) state.shard.value.copy_(state.master);
  }
}

}  // namespace terrace::optim
