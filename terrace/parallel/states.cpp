// Loops over the pieces of parameters that a rank owns.
#include "terrace/parallel/states.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

namespace terrace::parallel {
namespace {

// The number of initial values that are computed at a time. A larger buffer would stay allocated after the start.
constexpr int64_t most_at_once = int64_t{1} << 20;

}  // namespace

void spread_states(Sharded& sharded, optim::AdamW& optimizer, bool moments) {
  for (optim::AdamW::State& state : optimizer.states()) {
    sharded.spread(state.shard, state.master, "spread weights");
    if (!moments) continue;
    sharded.spread(state.shard, state.m, "spread first moments");
    sharded.spread(state.shard, state.v, "spread second moments");
  }
  optimizer.publish_masters();
  sharded.publish();
}

void set_initial_values(Sharded& sharded, optim::AdamW& optimizer, uint64_t seed) {
  const at::NoGradGuard no_grad;
  for (optim::AdamW::State& state : optimizer.states()) {
    for (const optim::ShardPiece& piece : state.shard.own_pieces()) {
      for (int64_t begin = piece.begin; begin < piece.end; begin += most_at_once) {
        const int64_t end = std::min(piece.end, begin + most_at_once);
        state.master.narrow(0, piece.at + begin - piece.begin, end - begin)
            .copy_(nn::initial_value(*piece.parameter, seed, at::kFloat, begin, end));
      }
    }
  }
  spread_states(sharded, optimizer, false);
}

void place_own_elements(const std::vector<nn::Parameter*>& parameters, optim::AdamW& optimizer,
                        const std::function<at::Tensor(const optim::AdamW::State&)>& tensor_of,
                        std::map<std::string, at::Tensor>& whole) {
  const at::NoGradGuard no_grad;
  for (const nn::Parameter* parameter : parameters) {
    if (!whole.contains(parameter->name)) whole[parameter->name] = at::zeros(parameter->mark.global_shape);
  }
  for (const optim::AdamW::State& state : optimizer.states()) {
    for (const optim::ShardPiece& piece : state.shard.own_pieces()) {
      const at::Tensor into = whole.at(piece.parameter->name).view({-1}), from = tensor_of(state);
      for (const MappedRange& run : mapped_ranges(piece.parameter->mark, piece.begin, piece.end)) {
        if (!run.counted) continue;
        into.narrow(0, run.global, run.size).copy_(from.narrow(0, piece.at + run.local - piece.begin, run.size));
      }
    }
  }
}

}  // namespace terrace::parallel
