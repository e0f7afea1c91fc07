// The sparse feed-forward of a transformer's block: a router gives each token to a few of many experts, each a
// feed-forward of its own without biases (Shazeer et al., arXiv 1701.06538; Mixtral, arXiv 2401.04088; DeepSeek-V3,
// arXiv 2412.19437). Nothing is ever dropped. docs/experts.md explains it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "terrace/models/model.h"
#include "terrace/models/transformer/feed_forward.h"
#include "terrace/nn/layers.h"
#include "terrace/ops/experts/expert_feed_forward.h"
#include "terrace/ops/experts/router.h"

namespace terrace::models {

struct ExpertOptions {
  int64_t number = 0;        // 0: every feed-forward is dense
  int64_t width = 0;         // inner, of one expert
  int64_t shared = 0;        // experts for every token: a dense feed-forward so many times as wide
  bool shared_gate = false;  // their sum is multiplied by a sigmoid of the token
  int64_t dense_layers = 0;  // the first layers, which have none
  ops::RouterSettings router = {};
  bool bias = false;  // of the choice, moved by `bias_rate` against the loads of each step
  double bias_rate = 0.0;
  double balance_loss = 0.0;  // factor of the balance loss of each sequence
  double z_loss = 0.0;        // factor of the mean of logsumexp of the scores squared over the tokens of a sequence

  bool are_in(int64_t layer) const { return number > 0 && layer >= dense_layers; }
};

class Experts : public nn::Module {
 public:
  // `name` is that of the layer in the whole model: "blocks.3.ffn". `layer` has the width, the activation and the
  // initial values of a dense one.
  Experts(const FeedForwardOptions& layer, const ExpertOptions& options, const std::string& name,
          const nn::Build& build);

  // x [B, T, D], this rank's positions; `cut` is that of parameters that every tensor rank has, which says whether
  // these ranks have parts of the positions.
  at::Tensor forward(const at::Tensor& x, const ops::Cut* cut, const Batch& batch, const Pass& pass) const;

  int64_t number() const { return options_.number; }

  // The sums over this rank's forwards in training, which then begin at zero.
  struct Sums {
    std::vector<double> loads;  // [E], the tokens of each expert
    double balance = 0, z = 0;  // over sequences: the balance loss, and the mean over tokens of logsumexp squared
  };
  Sums take_sums();
  // Moves the bias by the loads [E] of a whole step, where there is one and this rank has it.
  void move_bias(std::span<const double> loads);

 private:
  at::Tensor routed(const at::Tensor& x, const ops::Cut* cut, const Pass& pass) const;
  ops::RouterLosses losses_of(const at::Tensor& x, const ops::Cut* cut, const Pass& pass) const;
  ops::Routing route(const at::Tensor& x, const ops::Cut* cut, const Pass& pass) const;

  ExpertOptions options_;
  ops::Activation activation_;
  std::string name_;
  nn::Linear& router_;
  nn::Buffer* const bias_;          // null: none
  nn::Parameter &first_, &second_;  // of all experts, as ops::ExpertWeights has them
  FeedForward* const shared_;       // null: none
  nn::Linear* const shared_gate_;   // null: none
  struct DeviceSums {
    at::Tensor loads, losses;  // [E] and [balance, z] in double; undefined: zero
  };
  std::unique_ptr<DeviceSums> sums_;
};

}  // namespace terrace::models
