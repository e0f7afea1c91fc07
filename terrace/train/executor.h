// Executes the instruction list of a step on a stage of a model: forwards, backwards and what passes between stages,
// then the optimizer step.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "terrace/config/config.h"
#include "terrace/models/model.h"
#include "terrace/parallel/cut_model.h"
#include "terrace/parallel/stage_transfers.h"
#include "terrace/schedule/instruction.h"

namespace terrace::train {

class Executor {
 public:
  // Both outlive it.
  Executor(models::Model& model, parallel::CutModel& cut, config::Recompute recompute);
  ~Executor();

  // Runs this stage's instructions for the micro-batches in order. `optimizer_step` is called where the list says so,
  // when the gradients of this rank's shards are complete, with the loss summed over all counted tokens of its
  // micro-batches: 0 where the model's last part is on another stage.
  void run(const std::vector<models::Batch>& micro_batches, const models::Pass& pass,
           const std::function<void(double summed_loss)>& optimizer_step);

  // The loss of one micro-batch summed over its counted tokens, without gradients; 0 as above. All stages do it at
  // once.
  double evaluate(const models::Batch& batch);

 private:
  struct Flight;
  struct Step;

  std::vector<parallel::UnitUse> unit_uses(const schedule::Instructions& instructions) const;
  void execute(Step& step, const schedule::Instruction& instruction);
  void forward(Step& step, const schedule::Instruction& instruction);
  void compute_head(Step& step, Flight& flight, int64_t micro_batch);
  void backward(Step& step, const schedule::Instruction& instruction);
  void weight_gradient(Step& step, const schedule::Instruction& instruction);
  at::Tensor forward_unit(int64_t unit, int64_t end, const at::Tensor& hidden, const models::Batch& batch,
                          const models::Pass& pass);
  // The chunk's units but the model's last one, whose loss is no hidden state.
  parallel::UnitRange body(int64_t chunk) const;
  std::vector<int64_t> hidden_sizes(int64_t unit, const models::Batch& batch) const;

  models::Model& model_;
  parallel::CutModel& cut_;
  parallel::Sharded& sharded_;
  const parallel::Stage& stage_;
  config::Recompute recompute_;
  parallel::StageTransfers transfers_;
};

}  // namespace terrace::train
