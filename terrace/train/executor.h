// Executes the list of instructions of a step (schedule/step/step.h) on one rank, strictly in the order of the list.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <utility>
#include <vector>

#include "terrace/models/model.h"
#include "terrace/parallel/cut_model.h"
#include "terrace/parallel/stage_transfers.h"
#include "terrace/schedule/recompute.h"
#include "terrace/schedule/step/step.h"
#include "terrace/train/first_digests.h"
#include "terrace/train/memory_fault.h"
#include "terrace/train/step_observer.h"
#include "terrace/train/step_recorder.h"
#include "terrace/train/step_times.h"

namespace terrace::train {

// The functions that the caller runs at the end of a step.
struct StepEnd {
  // Called when the gradients of this rank's shards are complete, with each loss of the model summed over this rank's
  // micro-batches, without counts; there is nothing in them if another stage computes the losses. Returns whether to
  // update, which must be the same on all ranks.
  std::function<bool(const observe::TermSums& summed_losses)> norm;
  std::function<void()> update;
};

class Executor {
 public:
  // `model` and `cut` must outlive the executor.
  Executor(models::Model& model, parallel::CutModel& cut, schedule::SegmentRecompute recompute);
  ~Executor();

  // Decides what the steps from here on compute again, which changes no bit. The ranks that cut the same layers among
  // them make the same choice, since a repeated forward repeats its collectives.
  void set_recompute(schedule::SegmentRecompute recompute) { recompute_ = std::move(recompute); }

  // Records the steps from here on; null: none. The recorder outlives those steps.
  void record(StepRecorder* recorder) { recorder_ = recorder; }
  // For tests: flips bits of activations and gradients in training steps; null: none. The faults outlive those steps.
  void disturb(const MemoryFaults* faults) { faults_ = faults; }

  // Takes digests of what training steps compute from their first micro-batch from here on; null: none.
  void digest_first(FirstDigests* digests) { digests_ = digests; }

  // Tells the observer of the steps from here on; null: nobody. The observer outlives those steps.
  void tell(StepObserver* observer) { observer_ = observer; }

  // Sums up the times of the steps from here on; null: none. `times` outlives those steps.
  void time(StepTimes* times) { times_ = times; }

  // One training step with these micro-batches. What waits for all work of a GPU, such as the first use of a kernel and
  // memory that is returned to it, must not wait for a message that another stage sends only after one of this stage's.
  // So on GPUs the receives of a step are posted carefully (schedule::Posting) until a step of as many micro-batches
  // has taken no memory from the GPU.
  void run(const std::vector<models::Batch>& micro_batches, const models::Pass& pass, const StepEnd& end);

  // The sums of the losses of each micro-batch of the present or last step, in order and without counts, from
  // StepEnd::norm on; empty if another stage computes them. Waits for a GPU.
  std::vector<observe::TermSums> losses_of_micro_batches() const;

  // The sums of the losses of one micro-batch, without counts and gradients; no_sums() if another stage computes them.
  // Called by all ranks of the model-parallel group together.
  observe::TermSums evaluate(const models::Batch& batch);

  // The outputs of the model for one micro-batch, which needs no targets; empty if another stage computes the last
  // unit. Called by all ranks of the model-parallel group together.
  models::Outputs outputs(const models::Batch& batch);

 private:
  struct MicroBatchState;
  struct Step;

  void evaluate(Step& step);
  void execute(Step& step, const schedule::StepInstruction& instruction);
  void forward(Step& step, const schedule::StepInstruction& instruction);
  void loss(Step& step, const schedule::StepInstruction& instruction);
  void backward(Step& step, const schedule::StepInstruction& instruction);
  void weight_gradient(Step& step, const schedule::StepInstruction& instruction);
  void complete_gradient(int64_t segment, int64_t micro_batch);
  void pass_gradient_to_previous_chunk(Step& step, const schedule::StepInstruction& instruction);
  void send(Step& step, const schedule::StepInstruction& instruction);
  void receive(Step& step, const schedule::StepInstruction& instruction);
  void post(Step& step, const schedule::StepInstruction& receive);
  void post_what_comes_before(Step& step, const schedule::StepInstruction& instruction);
  bool posts_carefully(int64_t micro_batches) const;
  models::Tensors taken(parallel::Incoming& incoming);
  models::Tensors input_of(Step& step, const schedule::StepInstruction& instruction);
  std::vector<models::TensorShape> output_shapes(int64_t segment, const models::Batch& batch) const;

  models::Model& model_;
  parallel::CutModel& cut_;
  parallel::Sharded& sharded_;
  const parallel::Stage& stage_;
  schedule::SegmentRecompute recompute_;
  parallel::StageTransfers transfers_;
  StepRecorder* recorder_ = nullptr;
  const MemoryFaults* faults_ = nullptr;
  FirstDigests* digests_ = nullptr;
  std::vector<models::Tensors> last_losses_;  // of each micro-batch of the last step
  StepTimes* times_ = nullptr;
  StepObserver* observer_ = nullptr;
  int64_t settled_micro_batches_ = 0;  // micro-batches of the last step if it took no memory from the device, else 0
};

}  // namespace terrace::train
