// Executes the list of a step (schedule/step.h) on one rank: it computes, sends and moves what each instruction says,
// in that order and no other.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "terrace/config/config.h"
#include "terrace/models/model.h"
#include "terrace/parallel/cut_model.h"
#include "terrace/parallel/stage_transfers.h"
#include "terrace/schedule/step.h"

namespace terrace::train {

// The end of a step, which is the caller's.
struct StepEnd {
  // The gradients of this rank's shards are complete. Gets each loss of the model summed over this rank's
  // micro-batches, 0 where the model's last part is on another stage. Returns, the same on all ranks, whether to
  // update.
  std::function<bool(const std::vector<double>& summed_losses)> norm;
  std::function<void()> update;
};

class Executor {
 public:
  // Both outlive it.
  Executor(models::Model& model, parallel::CutModel& cut, config::Recompute recompute);
  ~Executor();

  // One training step with these micro-batches.
  void run(const std::vector<models::Batch>& micro_batches, const models::Pass& pass, const StepEnd& end);

  // The sums of the losses of one micro-batch, without gradients; 0 as above. All ranks of the stages
  // and groups do it at once.
  std::vector<double> evaluate(const models::Batch& batch);

 private:
  struct Flight;
  struct Step;

  void execute(Step& step, const schedule::StepInstruction& instruction);
  void forward(Step& step, const schedule::StepInstruction& instruction);
  void loss(Step& step, const schedule::StepInstruction& instruction);
  void backward(Step& step, const schedule::StepInstruction& instruction);
  void weight_gradient(Step& step, const schedule::StepInstruction& instruction);
  void hand_down(Step& step, const schedule::StepInstruction& instruction);
  void send(Step& step, const schedule::StepInstruction& instruction);
  void receive(Step& step, const schedule::StepInstruction& instruction);
  models::Tensors input_of(Step& step, const schedule::StepInstruction& instruction);
  std::vector<models::TensorShape> output_shapes(int64_t segment, const models::Batch& batch) const;
  int64_t first_position(const models::Batch& batch) const;

  models::Model& model_;
  parallel::CutModel& cut_;
  parallel::Sharded& sharded_;
  const parallel::Stage& stage_;
  config::Recompute recompute_;
  parallel::StageTransfers transfers_;
};

}  // namespace terrace::train
