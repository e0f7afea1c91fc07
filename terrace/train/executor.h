// Executes the instruction list of a step on a model: forwards, backwards, then the optimizer step.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "terrace/config/config.h"
#include "terrace/models/model.h"
#include "terrace/parallel/sharded.h"
#include "terrace/schedule/instruction.h"

namespace terrace::train {

class Executor {
 public:
  Executor(models::Model& model, parallel::Sharded& sharded, config::Recompute recompute)
      : model_(model), sharded_(sharded), recompute_(recompute) {}

  // Runs every instruction in order. `optimizer_step` is called where the list says so, when the gradients of all
  // micro-batches and ranks are summed, with the loss summed over all counted tokens of this rank's micro-batches.
  void run(const schedule::Instructions& instructions, const std::vector<models::Batch>& micro_batches,
           const models::Pass& pass, const std::function<void(double summed_loss)>& optimizer_step);

  // The loss of one micro-batch summed over its counted tokens, without gradients.
  double evaluate(const models::Batch& batch);

 private:
  at::Tensor forward(const models::Batch& batch, const models::Pass& pass);
  at::Tensor forward_unit(int64_t unit, const at::Tensor& hidden, const models::Batch& batch, const models::Pass& pass);
  at::Tensor backward(const at::Tensor& loss, bool first, bool last);

  models::Model& model_;
  parallel::Sharded& sharded_;
  config::Recompute recompute_;
};

}  // namespace terrace::train
