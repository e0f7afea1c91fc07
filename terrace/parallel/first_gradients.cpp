// Takes the squares of gradients that are whole on this rank at once, and those of shares after they are summed.
#include "terrace/parallel/first_gradients.h"

#include <ATen/core/grad_mode.h>

#include <utility>

namespace terrace::parallel {

void FirstGradients::begin_step(bool is_measured) {
  is_measured_ = is_measured;
  squares_ = {};
  kept_.clear();
}

// Takes the squares of the elements [begin, end) of a parameter's part on this rank, which are all that `gradient` [end
// - begin] holds.
void FirstGradients::take_squares(const at::Tensor& gradient, const ParamMark& mark, int64_t begin, int64_t end) {
  for (const LocalRange& range : counted_ranges(mark, begin, end)) {
    squares_.add(gradient.narrow(0, range.begin - begin, range.end - range.begin));
  }
}

void FirstGradients::take(int64_t segment) {
  if (!is_measured_) return;
  const at::NoGradGuard no_grad;
  for (nn::Parameter* parameter : segment_parameters(model_, stage_.segment(segment))) {
    const at::Tensor gradient = parameter->gradient.view({-1});
    const int64_t size = gradient.numel(), shares = stage_.is_shared(segment) ? 0 : tensor_.first_share(*parameter);
    if (shares > 0) take_squares(gradient.narrow(0, 0, shares), parameter->mark, 0, shares);
    if (shares == size) continue;
    kept_[segment].push_back({.gradient = gradient.narrow(0, shares, size - shares).clone(),
                              .value = {},
                              .own_begin = 0,
                              .own_end = size - shares,
                              .pieces = {{parameter, shares, size, 0}},
                              .segment = segment});
  }
}

double FirstGradients::squares() {
  const at::NoGradGuard no_grad;
  std::vector<optim::Shard> shares;
  for (const auto& [segment, shards] : kept_) shares.insert(shares.end(), shards.begin(), shards.end());
  stage_.sum_copies(shares);
  tensor_.sum_shares(shares);
  for (const optim::Shard& shard : shares) {
    const optim::ShardPiece& piece = shard.pieces.front();
    take_squares(shard.gradient, piece.parameter->mark, piece.begin, piece.end);
  }
  kept_.clear();
  return optim::value_of(std::exchange(squares_, {}).total());
}

}  // namespace terrace::parallel
