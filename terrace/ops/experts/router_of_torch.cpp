// The functions of a router's scores as operations of torch, for devices without loops of our own.
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/zeros_like.h>

#include <limits>
#include <tuple>

#include "terrace/ops/experts/router_functions.h"

namespace terrace::ops {
namespace {

at::Tensor scores_of_all(const at::Tensor& z, RouterScores kind) {
  return kind == RouterScores::softmax ? at::softmax(z, 1) : at::sigmoid(z);
}

// The numbers of the `count` largest of each row, the first one of equals.
at::Tensor best_of(const at::Tensor& scores, int64_t count) {
  return std::get<1>(at::sort(scores, /*stable=*/true, 1, /*descending=*/true)).narrow(1, 0, count);
}

at::Tensor choose_by_sorting(const at::Tensor& z, const at::Tensor& bias, const RouterSettings& settings) {
  at::Tensor scores = scores_of_all(z, settings.scores);
  if (bias.defined()) scores = scores.add(bias);
  if (settings.groups_kept < settings.groups) {
    const at::Tensor in_groups = scores.view({z.size(0), settings.groups, -1});
    const at::Tensor sums = std::get<0>(at::sort(in_groups, /*stable=*/true, 2, /*descending=*/true))
                                .narrow(2, 0, settings.best_in_group)
                                .sum(2);
    const at::Tensor kept = best_of(sums, settings.groups_kept);
    const at::Tensor closed = at::ones_like(sums).scatter_(1, kept, 0).to(at::kBool);
    scores = in_groups.masked_fill(closed.unsqueeze(2), -std::numeric_limits<double>::infinity()).flatten(1);
  }
  return best_of(scores, settings.experts_per_token).to(at::kInt).contiguous();
}

// The sums [N, 1] that scores are divided by to be shares of a token.
at::Tensor sums_of_scores(const at::Tensor& scores, RouterScores kind) {
  const at::Tensor sums = scores.sum(1, /*keepdim=*/true);
  return kind == RouterScores::sigmoid ? sums.add(least_sum_of_sigmoids) : sums;
}

// The choices of each expert in the sequences of the tokens, [N, E].
at::Tensor counts_by_token(const RoutedScores& routed) {
  const int64_t tokens = routed.z.size(0) / routed.sequence_counts.size(0);
  return routed.sequence_counts.repeat_interleave(tokens, 0);
}

RoutedWeights weigh_all(const RoutedScores& routed, const RouterSettings& settings) {
  const at::Tensor scores = scores_of_all(routed.z, settings.scores);
  at::Tensor weights = scores.gather(1, routed.experts.to(at::kLong));
  if (settings.normalised) weights = weights.div(sums_of_scores(weights, settings.scores));
  const at::Tensor shares =
      settings.scores == RouterScores::softmax ? scores : scores.div(sums_of_scores(scores, settings.scores));
  const at::Tensor balance = shares.to(at::kDouble).mul(counts_by_token(routed)).sum().mul(routed.balance_factor);
  return {weights.mul(settings.factor), balance, at::logsumexp(routed.z, 1).to(at::kDouble).square().sum()};
}

// The gradient of x for that of x / s(x), where s(x) is the sum of x.
at::Tensor slopes_of_shares(const at::Tensor& upstream, const at::Tensor& x, RouterScores kind) {
  const at::Tensor sums = sums_of_scores(x, kind);
  return upstream.sub(upstream.mul(x.div(sums)).sum(1, /*keepdim=*/true)).div(sums);
}

at::Tensor backward_of_all(const RoutedScores& routed, const RouterSettings& settings,
                           const RoutedGradients& gradients) {
  const at::Tensor scores = scores_of_all(routed.z, settings.scores), experts = routed.experts.to(at::kLong);
  at::Tensor of_weights = gradients.weights.mul(settings.factor);
  if (settings.normalised) of_weights = slopes_of_shares(of_weights, scores.gather(1, experts), settings.scores);
  at::Tensor slopes = at::zeros_like(scores).scatter_(1, experts, of_weights);
  if (gradients.balance_loss != 0) {
    const at::Tensor of_shares = counts_by_token(routed)
                                     .to(at::kDouble)
                                     .mul(gradients.balance_loss * routed.balance_factor)
                                     .to(scores.scalar_type());
    slopes.add_(settings.scores == RouterScores::softmax ? of_shares
                                                         : slopes_of_shares(of_shares, scores, settings.scores));
  }
  const bool softmax = settings.scores == RouterScores::softmax;
  slopes = softmax ? slopes.sub(slopes.mul(scores).sum(1, /*keepdim=*/true)).mul(scores)
                   : slopes.mul(scores).mul(at::ones_like(scores).sub(scores));
  if (gradients.z_loss != 0) {
    const at::Tensor log_sums = at::logsumexp(routed.z, 1, /*keepdim=*/true);
    slopes.add_(at::softmax(routed.z, 1).mul(log_sums.mul(2 * gradients.z_loss)));
  }
  return slopes;
}

}  // namespace

const RouterFunctions& router_functions_of_torch() {
  static constexpr RouterFunctions functions{choose_by_sorting, weigh_all, backward_of_all};
  return functions;
}

}  // namespace terrace::ops
