// AdamW on shards of parameters, with fp32 states and, for models in 16-bit types, fp32 master weights.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "terrace/config/config.h"
#include "terrace/optim/shard.h"

namespace terrace::optim {

class AdamW {
 public:
  // The states of one shard, [n] fp32 each. `master` is the shard's value itself if that is fp32 and
  // Shard::keeps_master is false.
  struct State {
    Shard shard;
    at::Tensor master, m, v;
  };

  // Masters start as the current values. The parameters must outlive the optimizer.
  AdamW(std::vector<Shard> shards, const config::OptimizerConfig& config);

  // Makes one update from the shards' gradients, each multiplied by `gradient_multiplier`.
  void step(double learning_rate, double gradient_multiplier);

  // Rounds every master to its shard's value; needed after masters were written from outside.
  void publish_masters();

  std::vector<State>& states() { return states_; }

  int64_t count = 0;  // updates made so far

 private:
  config::OptimizerConfig config_;
  std::vector<State> states_;
};

}  // namespace terrace::optim
