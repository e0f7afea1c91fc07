// Sums the differences of one flat buffer at a time, so that only its payloads take memory.
#include "terrace/parallel/outer_steps.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "terrace/base/random.h"
#include "terrace/parallel/collective.h"

namespace terrace::parallel {

namespace {

constexpr int64_t most_in_a_product = int64_t{1} << 20;  // elements of a product that takes memory of its own

}  // namespace

OuterSteps::OuterSteps(Sharded& sharded, optim::AdamW& optimizer, DataGroups& groups, const config::Config& config)
    : sharded_(sharded),
      optimizer_(optimizer),
      groups_(groups),
      format_(wire_format(config.layout.outer_type, Rounding::random)),
      every_(config.layout.outer_every),
      learning_rate_(config.optimizer.outer_learning_rate),
      momentum_(config.optimizer.outer_momentum) {
  const at::NoGradGuard no_grad;
  for (const optim::AdamW::State& state : optimizer.states()) {
    states_.push_back({.anchor = state.master.clone(), .momentum = at::zeros_like(state.master)});
  }
}

void OuterSteps::begin_at_masters() {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < states_.size(); ++i) {
    states_[i].anchor.copy_(optimizer_.states()[i].master);
    states_[i].momentum.zero_();
  }
}

void OuterSteps::update(uint64_t seed, int64_t step) {
  const at::NoGradGuard no_grad;
  sharded_.finish_update();  // the masters may be the weights that are on their way
  const PhiloxBlock block =
      philox_at(stream_key(seed, "rounding of outer differences"), static_cast<uint64_t>(step), 0);
  comm::Comm& copies = *groups_.replicas;
  // Members are ordered by their parts, which depend on the layout; the data coordinate does not.
  const int64_t sender = groups_.place.replicas.at(static_cast<size_t>(copies.member()));
  uint32_t flat = 0;  // the number of the flat buffer in its segment, which two stages may hold
  for (size_t i = 0; i < states_.size(); ++i) {
    const auto& [anchor, momentum] = states_[i];
    optim::AdamW::State& state = optimizer_.states()[i];
    flat = i > 0 && optimizer_.states()[i - 1].shard.segment == state.shard.segment ? flat + 1 : 0;
    const at::Tensor& difference = state.master;
    difference.neg_().add_(anchor);
    const Collective sum(format_, copies,
                         {.key = {block[0], block[1]},
                          .words = {static_cast<uint32_t>(state.shard.segment), flat, static_cast<uint32_t>(sender)}});
    sum.all_reduce(difference, {.what = "bring copies together", .segment = state.shard.segment, .phase = "step"})
        .finish();
    difference.div_(static_cast<double>(copies.size()));
    for (int64_t begin = 0; begin < difference.numel(); begin += most_in_a_product) {
      const int64_t size = std::min(most_in_a_product, difference.numel() - begin);
      const auto piece = [&](const at::Tensor& tensor) { return tensor.narrow(0, begin, size); };
      const at::Tensor d = piece(difference), b = piece(momentum);
      b.mul_(momentum_).add_(d);
      // Products and sums are rounded one by one: a fused operation gives other bits where a vector loop ends.
      d.add_(b.mul(momentum_)).mul_(learning_rate_);
      d.copy_(piece(anchor).sub_(d));
    }
  }
  optimizer_.publish_masters();
  sharded_.publish();
  sharded_.finish_update();
}

}  // namespace terrace::parallel
