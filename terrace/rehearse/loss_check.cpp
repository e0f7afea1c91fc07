// Adds up losses by groups of samples and trains the model on one rank, once as it is and once in double precision.
#include "terrace/rehearse/loss_check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>

#include "terrace/base/error.h"
#include "terrace/config/family.h"
#include "terrace/rehearse/narrowed_run.h"
#include "terrace/verify/small_run.h"

namespace terrace::rehearse {
namespace {

constexpr int64_t most_groups = 64;  // of a step; a group is one micro-batch of the run on one rank

// The smallest multiple of `micro_batch` that divides `share` and of which a step has at most most_groups.
int64_t samples_of_group(int64_t global_batch, int64_t share, int64_t micro_batch) {
  for (int64_t samples = micro_batch; samples < share; samples += micro_batch) {
    if (share % samples == 0 && global_batch / samples <= most_groups) return samples;
  }
  return share;
}

double sum_of(const observe::TermSums& losses, const std::vector<models::LossTerm>& terms) {
  double sum = 0;
  for (size_t term = 0; term < terms.size(); ++term) {
    if (terms[term].weight == 0) continue;
    for (const double value : losses.at(term).values) sum += value;
  }
  return sum;
}

std::vector<StepLosses> losses_of(const verify::SmallRun& run, int64_t groups) {
  std::vector<StepLosses> steps;
  for (const verify::StepState& state : run.steps) {
    StepLosses& losses = steps.emplace_back(static_cast<size_t>(groups), 0.0);
    const size_t each = state.micro_batch_losses.size() / losses.size();
    for (size_t i = 0; i < state.micro_batch_losses.size(); ++i) losses.at(i / each) += state.micro_batch_losses[i];
  }
  return steps;
}

double distance(const std::vector<StepLosses>& some, const std::vector<StepLosses>& exact) {
  double squares = 0;
  for (size_t step = 0; step < exact.size(); ++step) {
    for (size_t i = 0; i < exact[step].size(); ++i) squares += std::pow(some.at(step).at(i) - exact[step][i], 2);
  }
  return std::sqrt(squares);
}

double norm_of(const std::vector<StepLosses>& steps) {
  double squares = 0;
  for (const StepLosses& losses : steps) {
    for (const double loss : losses) squares += loss * loss;
  }
  return std::sqrt(squares);
}

// The sizes of micro-batches with which one rank trains. The error of a single sum a step is a matter of luck, so that
// of a family with such is the mean over several sizes.
std::vector<int64_t> sizes_on_one_rank(const config::Config& narrowed, const LossLog& log) {
  if (log.groups() > 1) return {log.group_samples()};
  std::vector<int64_t> sizes;
  for (int64_t size = 1; size <= narrowed.train.global_batch && sizes.size() < 4; size *= 2) {
    if (narrowed.train.global_batch % size == 0) sizes.push_back(size);
  }
  return sizes;
}

}  // namespace

LossLog::LossLog(const config::Config& config, int64_t data_ranks)
    : group_samples_(config.train.global_batch), steps_(static_cast<size_t>(config.train.steps)) {
  if (config.family->settings.equal_shares && config.train.micro_batch_sizes.empty()) {
    group_samples_ = samples_of_group(config.train.global_batch, config.train.global_batch / data_ranks,
                                      schedule::micro_batch_of(config, data_ranks));
    groups_ = config.train.global_batch / group_samples_;
  }
  for (StepLosses& losses : steps_) losses.resize(static_cast<size_t>(groups_), 0.0);
}

void LossLog::note(const train::Trainer& trainer) {
  const mesh::Mesh& mesh = trainer.mesh();
  const std::vector<observe::TermSums> micro_batches = trainer.last_losses();
  if (micro_batches.empty() || mesh.coordinate(trainer.rank(), "tensor") != 0) return;
  const std::vector<models::LossTerm> terms = trainer.losses();
  const int64_t own_groups = std::max<int64_t>(groups_ / mesh.size("data"), 1);
  const int64_t first = groups_ == 1 ? 0 : mesh.coordinate(trainer.rank(), "data") * own_groups;
  const std::lock_guard lock(mutex_);
  StepLosses& losses = steps_.at(static_cast<size_t>(trainer.steps_done() - 1));
  for (size_t i = 0; i < micro_batches.size(); ++i) {
    const int64_t group = first + static_cast<int64_t>(i) * own_groups / std::ssize(micro_batches);
    losses.at(static_cast<size_t>(group)) += sum_of(micro_batches[i], terms);
  }
}

void LossLog::forget_after(int64_t step) {
  const std::lock_guard lock(mutex_);
  for (size_t i = static_cast<size_t>(step); i < steps_.size(); ++i) std::ranges::fill(steps_[i], 0.0);
}

verify::ErrorPair loss_error(const config::Config& narrowed, const LossLog& log) {
  const std::vector<int64_t> sizes = sizes_on_one_rank(narrowed, log);
  std::vector<StepLosses> exact;
  std::thread exactly(
      [&] { exact = losses_of(verify::train_exactly(on_one_rank(narrowed, sizes.back())), log.groups()); });
  std::vector<std::vector<StepLosses>> on_one;
  try {
    for (const int64_t size : sizes) {
      on_one.push_back(losses_of(verify::train_small(on_one_rank(narrowed, size), {.number = 1}), log.groups()));
    }
  } catch (...) {
    exactly.join();
    throw;
  }
  exactly.join();
  double squares = 0;
  for (const std::vector<StepLosses>& one : on_one) squares += std::pow(distance(one, exact), 2);
  return {.ours = distance(log.steps(), exact),
          .one_rank = std::sqrt(squares / static_cast<double>(on_one.size())),
          .rounding = std::numeric_limits<float>::epsilon() / 2 * norm_of(exact)};
}

}  // namespace terrace::rehearse
