// Compares predictions with published runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "terrace/plan/report/published_errors.h"
#include "terrace/score/published_run.h"

namespace terrace::score {

struct ScoredRun {
  PublishedRun run = {};
  // The fastest by prediction of the configurations that the run may have had, among those that fit the devices if any
  // does: published runs are tuned ones.
  config::Config config = {};
  std::string kind = {};  // of the layout, as plan::layout_kind() says
  int64_t parameters = 0;
  double measured = 0, predicted = 0;  // seconds of a step
  double predicted_memory = 0;         // bytes of the fullest device
  bool fits = true;                    // the device's memory, by prediction
  double items = 0;                    // tokens of a step on one device

  double error() const { return predicted / measured - 1; }
  // Tokens a second of a device.
  double measured_rate() const { return items / measured; }
  double predicted_rate() const { return items / predicted; }
  // "tensor 8, pipeline 16, zero1, micro-batch 1".
  std::string layout() const;
};

struct Score {
  std::vector<ScoredRun> scored = {};
  std::vector<PublishedRun> left_out = {};  // those with problems
};

// Predicts all runs, with progress.
Score score(const std::vector<PublishedRun>& runs);

// How far predictions are from what was measured.
struct Summary {
  std::string name = {};  // of a kind of layouts or of a model
  int64_t runs = 0;
  double mean_absolute = 0, mean = 0;  // of predicted over measured, less 1
  double lowest = 0, highest = 0;
  // Spearman's rank correlation of tokens a second of a device; NaN for fewer than three runs.
  double rank_correlation = 0;
  // The share by which the run that is predicted to have the most tokens a second has fewer than the one that has them.
  double cost_of_choice = 0;
  int64_t memory_runs = 0;  // runs of which the memory was published
  double memory_mean_absolute = 0;
};

Summary summary_of(const std::string& name, const std::vector<ScoredRun>& runs);
// In the order of the names.
std::vector<Summary> by_kind(const std::vector<ScoredRun>& runs);
std::vector<Summary> by_model(const std::vector<ScoredRun>& runs);

// A run and its error, as the intervals of plans are made of them.
plan::ComparedRun compared_run(const ScoredRun& run);
std::vector<plan::ComparedRun> compared(const Score& score);

}  // namespace terrace::score
