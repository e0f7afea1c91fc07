// The router of a mixture of experts: which experts compute a token, and with which weights.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "terrace/ops/weight.h"

namespace terrace::ops {

enum class RouterScores : uint8_t { softmax, sigmoid };

// The routers of published models, with k experts a token: Mixtral and Qwen3-MoE have normalised soft-max; Qwen2-MoE
// and OLMoE soft-max as it is; DeepSeek-V3 (arXiv 2412.19437, equations 13 to 16) normalised sigmoids with a bias,
// 4 of 8 groups and the factor 2.5.
struct RouterSettings {
  int64_t experts_per_token = 1;  // k
  RouterScores scores = RouterScores::softmax;
  bool normalised = false;  // weights are divided by their sum (sigmoids: by their sum + 1e-20)
  double factor = 1;        // of the weights, at last
  // The E experts are in groups of E / groups neighbours. A token's experts come from the `groups_kept` groups with the
  // largest sums of their `best_in_group` (1 or 2) best scores. k must not be larger than what these groups hold.
  int64_t groups = 1, groups_kept = 1;
  int64_t best_in_group = 2;

  bool operator==(const RouterSettings&) const = default;
};

// The sequences and factors of the losses. x holds the same number of consecutive tokens of each of `sequences`
// sequences: all T of a sequence, or this rank's.
struct RouterLosses {
  int64_t sequences = 1;
  int64_t length = 0;  // T; 0: all tokens of a sequence are in x
  // d total loss / d each of the losses of Routing. Backward adds the gradients of the losses with these factors to
  // those that come from the weights; the losses themselves are not differentiable.
  double balance_scale = 0, z_scale = 0;
  // Replaces counts [sequences, E] int64 by their sums over the ranks that hold tokens of the same sequences. Null:
  // this rank holds whole sequences.
  std::function<void(const at::Tensor&)> sum_counts = nullptr;
};

// A choice is kept and never made twice: scores that are computed again may differ in the last bit and choose others.
struct ExpertChoice {
  at::Tensor experts;          // [N, k] int32, the best one first; of equal scores that of the lower expert
  at::Tensor counts;           // [E] int64, over the tokens of x
  at::Tensor sequence_counts;  // [sequences, E] int64, over whole sequences
};

struct Routing {
  ExpertChoice choice;
  at::Tensor weights;  // [N, k] of the computing type, differentiable to x and the router's weight
  // Scalars in double, sums over x's tokens t. With P_ti the soft-max of the token's scores, or its sigmoids divided by
  // their sum, and c_i the choices of expert i in the token's sequence: balance = sum of E / (k T^2) c_i P_ti, which is
  // the number of sequences at even load (DeepSeek-V3, equations 17 to 20); z = sum of logsumexp(z_t)^2 (ST-MoE,
  // arXiv 2202.08906, equation 5).
  at::Tensor balance_loss, z_loss;
};

// z [N, E] = x [.., D] weight^T for weight [E, D], in fp32 (double for double). The bits of a row depend on that row of
// x alone, not on the other rows, their number or the threads.
at::Tensor router_scores(const at::Tensor& x, const at::Tensor& weight);

// Routes the N tokens of x [.., D] among the E experts of `router` [E, D], whose value has the computing type: fp32, or
// double for an x in double. `bias` [E] of this type takes part in the choice alone; undefined: none. With a choice
// `made` before for the same tokens, that choice is taken and sum_counts is not called. Backward adds the gradient of
// the router's weight to its buffer or defers it.
Routing route(const at::Tensor& x, const Weight& router, const at::Tensor& bias, const RouterSettings& settings,
              const RouterLosses& losses = {}, WeightGradientQueue* deferred = nullptr,
              const ExpertChoice* made = nullptr);

}  // namespace terrace::ops
