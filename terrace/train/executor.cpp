// Walks the instruction list; activations of a micro-batch live from its forward to its backward.
#include "terrace/train/executor.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones_like.h>

#include "terrace/base/error.h"
#include "terrace/ops/recompute.h"
#include "terrace/ops/record.h"

namespace terrace::train {

using schedule::Instruction;

at::Tensor Executor::forward_unit(int64_t unit, const at::Tensor& hidden, const models::Batch& batch,
                                  const models::Pass& pass) {
  sharded_.before_forward(unit);
  at::Tensor output;
  if (unit > 0 && pass.training && recompute_ == config::Recompute::full) {
    const auto segment = [this, unit, batch, pass](const at::Tensor& x) {
      return model_.forward_unit(unit, x, batch, pass);
    };
    output = ops::recompute(segment, hidden);
  } else {
    output = model_.forward_unit(unit, hidden, batch, pass);
  }
  sharded_.after_forward(unit);
  if (pass.training) {
    // Called with the gradient of what lies between two units: the upper one's backward is complete.
    output.register_hook([this, unit](const at::Tensor&) {
      sharded_.after_backward(unit + 1);
      sharded_.before_backward(unit);
    });
  }
  return output;
}

// The last unit adds to gradients in its forward already, and its backward comes at once.
at::Tensor Executor::forward(const models::Batch& batch, const models::Pass& pass) {
  const ops::PhaseRecord record("forward");
  const int64_t head = model_.num_units() - 1;
  at::Tensor hidden;
  for (int64_t unit = 0; unit < head; ++unit) hidden = forward_unit(unit, hidden, batch, pass);
  if (pass.training) {
    sharded_.before_backward(head);
    return model_.loss(hidden, batch, pass);
  }
  sharded_.before_forward(head);
  const at::Tensor loss = model_.loss(hidden, batch, pass);
  sharded_.after_forward(head);
  return loss;
}

// The loss without its graph, whose number is read when the step is done: on a GPU that waits for the device.
at::Tensor Executor::backward(const at::Tensor& loss, bool first, bool last) {
  const ops::PhaseRecord record("backward");
  sharded_.begin_backward(first, last);
  loss.backward();
  sharded_.after_backward(0);
  return loss.detach();
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
      case Instruction::Kind::backward:
        losses[index] = backward(live[index], index == 0, index + 1 == micro_batches.size());
        live[index].reset();
        break;
      case Instruction::Kind::optimizer_step: {
        const ops::PhaseRecord record("optimizer");
        sharded_.finish_gradients();
        double sum = 0;
        for (const at::Tensor& loss : losses) sum += loss.item<double>();
        optimizer_step(sum);
        break;
      }
      default:
        TERRACE_CHECK(false, "{} belongs to a model that is cut into stages", schedule::to_string(instruction));
    }
  }
}

double Executor::evaluate(const models::Batch& batch) {
  const at::NoGradGuard no_grad;
  return forward(batch, models::Pass{}).item<double>();
}

}  // namespace terrace::train
