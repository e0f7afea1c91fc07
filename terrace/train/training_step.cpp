// Runs a step and ends it: sums the losses, takes the gradient norm, asks the caller's judge and updates.
#include "terrace/train/training_step.h"

#include <algorithm>

namespace terrace::train {

TrainingStep::TrainingStep(models::Model& model, parallel::CutModel& cut, optim::AdamW& optimizer,
                           config::Recompute recompute)
    : cut_(cut), optimizer_(optimizer), executor_(model, cut, recompute) {}

void TrainingStep::run(const std::vector<models::Batch>& micro_batches, const models::Pass& pass, double learning_rate,
                       const JudgeSums& judge) {
  std::optional<double> multiplier;
  executor_.run(micro_batches, pass,
                {.norm =
                     [&](const std::vector<double>& summed_losses) {
                       StepSums sums{.losses = summed_losses, .gradients = {}};
                       // Several ranks may compute the losses of the same micro-batches; only one of them counts.
                       if (!cut_.has_loss()) std::ranges::fill(sums.losses, 0.0);
                       cut_.groups.control
                           ->all_reduce(sums.losses.data(), static_cast<int64_t>(sums.losses.size()), comm::Type::fp64,
                                        {.what = "loss"})
                           .wait();
                       sums.gradients = cut_.gradient_norm();
                       multiplier = judge(sums);
                       if (!multiplier) cut_.sharded.forget_errors();
                       return multiplier.has_value();
                     },
                 .update = [&] { optimizer_.step(learning_rate, *multiplier); }});
}

}  // namespace terrace::train
