// AdamW with fp32 states and, where the model computes in 16 bits, fp32 master weights, on shards of parameters.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "terrace/config/config.h"
#include "terrace/optim/shard.h"

namespace terrace::optim {

class AdamW {
 public:
  // The states of one shard, [n] fp32 each. `master` is the shard's own value where that is fp32 and kept as it is.
  struct State {
    Shard shard;
    at::Tensor master, m, v;
  };

  // Masters start as the present values; keep the parameters alive.
  AdamW(std::vector<Shard> shards, const config::OptimizerConfig& config);

  // One update from the shards' gradients, each multiplied by `gradient_multiplier`.
  void step(double learning_rate, double gradient_multiplier);

  // Rounds every master into its shard's value, after masters were written.
  void publish_masters();

  std::vector<State>& states() { return states_; }

  int64_t count = 0;  // updates made so far

 private:
  config::OptimizerConfig config_;
  std::vector<State> states_;
};

}  // namespace terrace::optim
