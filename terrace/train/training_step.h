// Makes one training step of a rank, from its micro-batches to the updated weights. The trainer, verify and the tests
// use the same step and differ only in what they decide and record once the gradients are summed.
#pragma once

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "terrace/models/model.h"
#include "terrace/optim/adamw.h"
#include "terrace/optim/gradient_norm.h"
#include "terrace/parallel/cut_model.h"
#include "terrace/train/executor.h"

namespace terrace::train {

// The result of a step before its update; the same on all ranks.
struct StepSums {
  observe::TermSums losses;                       // sums over all micro-batches of all ranks, without counts
  std::vector<std::vector<double>> tallies = {};  // of the model, over the same
  optim::GradientNorm gradients;
};

// The sums of a step's losses with its tallies behind them, whose counts are the samples of the step.
observe::TermSums with_tallies(observe::TermSums losses, const std::vector<std::vector<double>>& tallies,
                               int64_t samples);

// Returns what the gradients are multiplied by for the update, or nothing if the update is to be skipped. The answer
// must be the same on all ranks.
using JudgeSums = std::function<std::optional<double>(const StepSums&)>;

// Puts the sums of all members together, on every member, but not the counts. `what` names the call in error messages.
void put_together(comm::Comm& members, const std::vector<models::LossTerm>& losses, observe::TermSums& sums,
                  const char* what);

class TrainingStep {
 public:
  // `model`, `cut` and `optimizer` must outlive this object; `optimizer` has the shards of `cut`.
  TrainingStep(models::Model& model, parallel::CutModel& cut, optim::AdamW& optimizer,
               schedule::SegmentRecompute recompute);

  // Called by all ranks together, each with the same number of micro-batches. The model's tallies begin at zero, and
  // after the update it gets their sums. Where the update is skipped, the errors
  // of quantized gradients are forgotten: their gradients have no effect, and may not have been finite.
  void run(const std::vector<models::Batch>& micro_batches, const models::Pass& pass, double learning_rate,
           const JudgeSums& judge);

  // Forward and backward of these micro-batches with all that ranks exchange, but no norm and no update.
  void compute(const std::vector<models::Batch>& micro_batches, const models::Pass& pass) {
    executor_.run(micro_batches, pass, {.norm = [](const observe::TermSums&) { return false; }, .update = [] {}});
  }

  // See Executor::set_recompute.
  void set_recompute(schedule::SegmentRecompute recompute) { executor_.set_recompute(std::move(recompute)); }

  // See Executor::record.
  void record(StepRecorder* recorder) { executor_.record(recorder); }
  // See Executor::digest_first.
  void digest_first(FirstDigests* digests) { executor_.digest_first(digests); }
  // See Executor::disturb.
  void disturb(const MemoryFaults* faults) { executor_.disturb(faults); }

  // See Executor::tell.
  void tell(StepObserver* observer) { executor_.tell(observer); }

  // See Executor::time.
  void time(StepTimes* times) { executor_.time(times); }

  // See Executor::losses_of_micro_batches.
  std::vector<observe::TermSums> losses_of_micro_batches() const { return executor_.losses_of_micro_batches(); }
  // See Executor::evaluate.
  observe::TermSums evaluate(const models::Batch& batch) { return executor_.evaluate(batch); }
  // See Executor::outputs.
  models::Outputs outputs(const models::Batch& batch) { return executor_.outputs(batch); }

 private:
  // The tallies of all ranks together, on every rank.
  std::vector<std::vector<double>> summed_tallies();

  models::Model& model_;
  parallel::CutModel& cut_;
  optim::AdamW& optimizer_;
  std::vector<models::LossTerm> losses_;
  Executor executor_;
};

}  // namespace terrace::train
