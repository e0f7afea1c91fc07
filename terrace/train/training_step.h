// One training step of a rank from its micro-batches to the updated weights: the step of the trainer, of verify and of
// the tests, which differ only in what they decide and note once the gradients are summed.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "terrace/config/config.h"
#include "terrace/models/model.h"
#include "terrace/optim/adamw.h"
#include "terrace/optim/gradient_norm.h"
#include "terrace/parallel/cut_model.h"
#include "terrace/train/executor.h"

namespace terrace::train {

// What a step has come to when its gradients are summed; the same on all ranks.
struct StepSums {
  std::vector<double> losses;  // by loss of the model, over all micro-batches of all ranks
  optim::GradientNorm gradients;
};

// Returns what the gradients are multiplied by for the update, or nothing where the update is to be left out: the same
// on all ranks.
using JudgeSums = std::function<std::optional<double>(const StepSums&)>;

class TrainingStep {
 public:
  // All outlive it; `optimizer` has the shards of `cut`.
  TrainingStep(models::Model& model, parallel::CutModel& cut, optim::AdamW& optimizer, config::Recompute recompute);

  // All ranks at once, each with as many micro-batches.
  void run(const std::vector<models::Batch>& micro_batches, const models::Pass& pass, double learning_rate,
           const JudgeSums& judge);

  // See Executor::evaluate.
  std::vector<double> evaluate(const models::Batch& batch) { return executor_.evaluate(batch); }

 private:
  parallel::CutModel& cut_;
  optim::AdamW& optimizer_;
  Executor executor_;
};

}  // namespace terrace::train
