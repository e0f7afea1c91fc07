// AdamW with fp32 states and, where the model computes in 16 bits, fp32 master weights.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "terrace/config/config.h"
#include "terrace/nn/module.h"

namespace terrace::optim {

class AdamW {
 public:
  // The states of one parameter. `master` is the parameter's own value where that is fp32.
  struct Slot {
    nn::Parameter* parameter;
    at::Tensor master, m, v;
  };

  // Masters start as the present values; keep the parameters alive.
  AdamW(const std::vector<nn::Parameter*>& parameters, const config::OptimizerConfig& config);

  // One update from the accumulated gradients, each multiplied by `gradient_multiplier`.
  void step(double learning_rate, double gradient_multiplier);

  // Rounds every master into its parameter's value, after masters were loaded.
  void publish_masters();

  std::vector<Slot>& slots() { return slots_; }

  int64_t count = 0;  // updates made so far

 private:
  config::OptimizerConfig config_;
  std::vector<Slot> slots_;
};

}  // namespace terrace::optim
