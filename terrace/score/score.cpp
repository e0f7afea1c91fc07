// Predicts each configuration that a run may have had, and sums errors up.
#include "terrace/score/score.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>

#include "terrace/base/error.h"
#include "terrace/base/terminal/progress.h"
#include "terrace/config/family.h"
#include "terrace/config/names.h"
#include "terrace/plan/prediction.h"

namespace terrace::score {
namespace {

// Puts the fastest of a run's likely configurations into `scored`; the messages of those that cannot be planned are
// appended to `problems`.
bool predict_run(const PublishedRun& run, ScoredRun& scored, std::vector<std::string>& problems) {
  bool found = false;
  for (const config::Config& config : run.configs) {
    try {
      const plan::Prediction prediction = plan::predict(config, run.target);
      const std::pair rank{!prediction.feasible(), prediction.step_seconds};
      if (found && std::pair{!scored.fits, scored.predicted} <= rank) continue;
      found = true;
      scored = {.run = run,
                .config = config,
                .kind = plan::layout_kind(config, run.target),
                .parameters = prediction.parameters,
                .measured = run.seconds,
                .predicted = prediction.step_seconds,
                .predicted_memory = prediction.fullest().memory.total(),
                .fits = prediction.feasible(),
                .items = static_cast<double>(prediction.items) / static_cast<double>(run.target.devices)};
      if (run.flops_rate > 0) {
        const double flops = run.counts_recompute ? prediction.hardware_flops : prediction.model_flops;
        scored.measured = flops / run.flops_rate / static_cast<double>(run.target.devices);
      }
    } catch (const UserError& error) {
      problems.emplace_back(error.what());
    }
  }
  return found;
}

// The position of each value in ascending order; equal values share the mean of theirs.
std::vector<double> ranks_of(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) { return values[i]; });
  std::vector<double> ranks(values.size());
  for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (size_t i = begin; i < end; ++i) ranks[order[i]] = static_cast<double>(begin + end - 1) / 2;
  }
  return ranks;
}

// Pearson's correlation of the ranks.
double rank_correlation(const std::vector<ScoredRun>& runs) {
  if (runs.size() < 3) return std::numeric_limits<double>::quiet_NaN();
  std::vector<double> measured, predicted;
  for (const ScoredRun& one : runs) {
    measured.push_back(one.measured_rate());
    predicted.push_back(one.predicted_rate());
  }
  const std::vector<double> a = ranks_of(measured), b = ranks_of(predicted);
  const double mean = static_cast<double>(runs.size() - 1) / 2;
  double both = 0, of_a = 0, of_b = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    both += (a[i] - mean) * (b[i] - mean);
    of_a += (a[i] - mean) * (a[i] - mean);
    of_b += (b[i] - mean) * (b[i] - mean);
  }
  return of_a == 0 || of_b == 0 ? std::numeric_limits<double>::quiet_NaN() : both / std::sqrt(of_a * of_b);
}

std::vector<Summary> summaries(const std::vector<ScoredRun>& runs,
                               const std::function<std::string(const ScoredRun&)>& name_of) {
  std::map<std::string, std::vector<ScoredRun>> groups;
  for (const ScoredRun& one : runs) groups[name_of(one)].push_back(one);
  std::vector<Summary> all;
  for (const auto& [name, of] : groups) all.push_back(summary_of(name, of));
  return all;
}

}  // namespace

Score score(const std::vector<PublishedRun>& runs) {
  Score score;
  Progress progress("predicting published runs", runs.size());
  uint64_t done = 0;
  for (const PublishedRun& run : runs) {
    progress.update(done++);
    ScoredRun scored;
    PublishedRun refused = run;
    if (refused.problems.empty() && predict_run(run, scored, refused.problems)) {
      score.scored.push_back(scored);
    } else {
      score.left_out.push_back(refused);
    }
  }
  progress.clear();
  return score;
}

Summary summary_of(const std::string& name, const std::vector<ScoredRun>& runs) {
  Summary sum{.name = name, .runs = std::ssize(runs)};
  if (runs.empty()) return sum;
  sum.lowest = sum.highest = runs.front().error();
  for (const ScoredRun& one : runs) {
    sum.mean_absolute += std::abs(one.error());
    sum.mean += one.error();
    sum.lowest = std::min(sum.lowest, one.error());
    sum.highest = std::max(sum.highest, one.error());
    if (one.run.memory_bytes == 0) continue;
    ++sum.memory_runs;
    sum.memory_mean_absolute += std::abs(one.predicted_memory / one.run.memory_bytes - 1);
  }
  sum.mean_absolute /= static_cast<double>(sum.runs);
  sum.mean /= static_cast<double>(sum.runs);
  if (sum.memory_runs > 0) sum.memory_mean_absolute /= static_cast<double>(sum.memory_runs);
  sum.rank_correlation = rank_correlation(runs);
  const double chosen = std::ranges::max_element(runs, {}, &ScoredRun::predicted_rate)->measured_rate();
  const double best = std::ranges::max_element(runs, {}, &ScoredRun::measured_rate)->measured_rate();
  sum.cost_of_choice = 1 - chosen / best;
  return sum;
}

std::vector<Summary> by_kind(const std::vector<ScoredRun>& runs) {
  return summaries(runs, [](const ScoredRun& one) { return one.kind; });
}

std::vector<Summary> by_model(const std::vector<ScoredRun>& runs) {
  return summaries(runs, [](const ScoredRun& one) { return one.run.model; });
}

std::string ScoredRun::layout() const {
  const config::LayoutConfig& own = config.layout;
  std::string text = fmt::format("tensor {}, pipeline {}", own.tensor, own.pipeline);
  if (own.chunks > 1) text += fmt::format(" in {} chunks", own.chunks);
  return fmt::format("{}, {}, micro-batch {}", text, config::name_of(own.sharding), config.train.micro_batch);
}

plan::ComparedRun compared_run(const ScoredRun& run) {
  const double tokens =
      run.items * static_cast<double>(run.run.target.devices) / static_cast<double>(run.config.train.global_batch);
  return {.kind = run.kind,
          .family = run.config.family->name,
          .machine = run.run.target.machine.name,
          .program = run.run.target.software.name,
          .devices = run.run.target.devices,
          .parameters = run.parameters,
          .layout = fmt::format("{}, {:.0f} tokens a sequence", run.layout(), tokens),
          .error = run.error()};
}

std::vector<plan::ComparedRun> compared(const Score& score) {
  std::vector<plan::ComparedRun> runs;
  for (const ScoredRun& one : score.scored) runs.push_back(compared_run(one));
  return runs;
}

}  // namespace terrace::score
