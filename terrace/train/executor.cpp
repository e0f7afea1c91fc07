// Walks the instruction list; activations of a micro-batch live from its forward to its backward.
#include "terrace/train/executor.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones_like.h>

#include "terrace/base/error.h"
#include "terrace/ops/recompute.h"
#include "terrace/ops/record.h"

namespace terrace::train {

using schedule::Instruction;

at::Tensor Executor::forward(const models::Batch& batch, const models::Pass& pass) {
  const ops::PhaseRecord record("forward");
  const int64_t head = model_.num_units() - 1;
  at::Tensor hidden = model_.forward_unit(0, {}, batch, pass);
  for (int64_t unit = 1; unit < head; ++unit) {
    if (pass.training && recompute_ == config::Recompute::full) {
      hidden = ops::recompute(
          [this, unit, batch, pass](const at::Tensor& x) { return model_.forward_unit(unit, x, batch, pass); }, hidden);
    } else {
      hidden = model_.forward_unit(unit, hidden, batch, pass);
    }
  }
  return model_.loss(hidden, batch, pass);
}

void Executor::run(const schedule::Instructions& instructions, const std::vector<models::Batch>& micro_batches,
                   const models::Pass& pass, const std::function<void(double)>& optimizer_step) {
  models::Pass training = pass;
  training.training = true;
  training.recompute_attention = recompute_ == config::Recompute::selective;
  std::vector<at::Tensor> live(micro_batches.size());
  std::vector<at::Tensor> losses(micro_batches.size());
  for (const Instruction& instruction : instructions) {
    const auto index = static_cast<size_t>(instruction.micro_batch);
    switch (instruction.kind) {
      case Instruction::Kind::forward:
        live[index] = forward(micro_batches[index], training);
        break;
      case Instruction::Kind::backward: {
        const ops::PhaseRecord record("backward");
        // Its number is read when the step is done: on a GPU that waits for the device.
        losses[index] = live[index].detach();
        live[index].backward();
        live[index].reset();
        nn::collect_autograd_gradients(model_.parameters());
        break;
      }
      case Instruction::Kind::optimizer_step: {
        const ops::PhaseRecord record("optimizer");
        double sum = 0;
        for (const at::Tensor& loss : losses) sum += loss.item<double>();
        optimizer_step(sum);
        break;
      }
    }
  }
}

double Executor::evaluate(const models::Batch& batch) {
  const at::NoGradGuard no_grad;
  return forward(batch, models::Pass{}).item<double>();
}

}  // namespace terrace::train
