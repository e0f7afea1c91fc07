// Executes the instruction list of a step on a model: forwards, backwards, then the optimizer step.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "terrace/config/config.h"
#include "terrace/models/model.h"
#include "terrace/schedule/instruction.h"

namespace terrace::train {

class Executor {
 public:
  Executor(models::Model& model, config::Recompute recompute) : model_(model), recompute_(recompute) {}

  // Runs every instruction in order; gradients accumulate in the parameters' buffers. `optimizer_step` is called where
  // the list says so, with the loss summed over all counted tokens of the micro-batches.
  void run(const schedule::Instructions& instructions, const std::vector<models::Batch>& micro_batches,
           const models::Pass& pass, const std::function<void(double summed_loss)>& optimizer_step);

  // The loss of one micro-batch summed over its counted tokens, without gradients.
  double evaluate(const models::Batch& batch);

 private:
  at::Tensor forward(const models::Batch& batch, const models::Pass& pass);

  models::Model& model_;
  config::Recompute recompute_;
};

}  // namespace terrace::train
