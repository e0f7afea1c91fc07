// Runs a step and ends it: sums the losses, takes the gradient norm, asks the caller's judge and updates.
#include "terrace/train/training_step.h"

#include <utility>
#include <vector>

namespace terrace::train {

void put_together(comm::Comm& members, const std::vector<models::LossTerm>& losses, observe::TermSums& sums,
                  const char* what) {
  std::vector<double> added, largest;
  const auto list_of = [&](size_t term) -> std::vector<double>& {
    return losses[term].combine == models::Combine::sum ? added : largest;
  };
  for (size_t term = 0; term < losses.size(); ++term) {
    list_of(term).insert(list_of(term).end(), sums[term].values.begin(), sums[term].values.end());
  }
  members.all_reduce(added.data(), static_cast<int64_t>(added.size()), comm::Type::fp64, {.what = what}).wait();
  std::vector<double> of_all(largest.size() * static_cast<size_t>(members.size()));
  if (!largest.empty()) {
    members
        .all_gather(largest.data(), of_all.data(), static_cast<int64_t>(largest.size()), comm::Type::fp64,
                    {.what = what})
        .wait();
  }
  auto next_sum = added.cbegin();
  size_t next_largest = 0;
  for (size_t term = 0; term < losses.size(); ++term) {
    for (double& value : sums[term].values) {
      if (losses[term].combine == models::Combine::sum) {
        value = *next_sum++;
        continue;
      }
      for (size_t from = next_largest; from < of_all.size(); from += largest.size()) {
        value = models::larger(value, of_all[from]);
      }
      ++next_largest;
    }
  }
}

observe::TermSums with_tallies(observe::TermSums losses, const std::vector<std::vector<double>>& tallies,
                               int64_t samples) {
  for (const std::vector<double>& tally : tallies) {
    losses.push_back({.values = tally, .count = static_cast<double>(samples)});
  }
  return losses;
}

TrainingStep::TrainingStep(models::Model& model, parallel::CutModel& cut, optim::AdamW& optimizer,
                           schedule::SegmentRecompute recompute)
    : model_(model),
      cut_(cut),
      optimizer_(optimizer),
      losses_(model.losses()),
      executor_(model, cut, std::move(recompute)) {}

std::vector<std::vector<double>> TrainingStep::summed_tallies() {
  std::vector<std::vector<double>> tallies = model_.take_tallies();
  if (tallies.empty()) return tallies;
  std::vector<double> all;
  for (const std::vector<double>& tally : tallies) all.insert(all.end(), tally.begin(), tally.end());
  cut_.groups.control->all_reduce(all.data(), std::ssize(all), comm::Type::fp64, {.what = "tallies"}).wait();
  auto next = all.cbegin();
  for (std::vector<double>& tally : tallies) {
    for (double& number : tally) number = *next++;
  }
  return tallies;
}

void TrainingStep::run(const std::vector<models::Batch>& micro_batches, const models::Pass& pass, double learning_rate,
                       const JudgeSums& judge) {
  std::optional<double> multiplier;
  std::vector<std::vector<double>> tallies;
  model_.take_tallies();
  executor_.run(micro_batches, pass,
                {.norm =
                     [&](const observe::TermSums& summed_losses) {
                       // Several ranks may compute the losses of the same micro-batches; only one of them counts.
                       StepSums sums{.losses = cut_.has_loss() ? summed_losses : models::no_sums(losses_),
                                     .gradients = {}};
                       put_together(*cut_.groups.control, losses_, sums.losses, "loss");
                       sums.tallies = tallies = summed_tallies();
                       sums.gradients = cut_.gradient_norm();
                       multiplier = judge(sums);
                       if (!multiplier) cut_.sharded.forget_errors();
                       return multiplier.has_value();
                     },
                 .update =
                     [&] {
                       optimizer_.step(learning_rate, *multiplier);
                       model_.end_step(tallies);
                     }});
}

}  // namespace terrace::train
