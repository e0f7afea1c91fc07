// Batch-size ramp-up and skipped ranges: how many sequences each step takes, and how many were drawn before it, at any
// step at once. Steps are counted from 1, as metrics.jsonl shows them.
#pragma once

#include <cstdint>
#include <vector>

#include "terrace/config/config.h"

namespace terrace::data {

// The batch begins at ramp_start and grows by ramp_increment n = (global_batch - ramp_start) / ramp_increment times.
// The ramp_samples sequences are divided evenly among the n sizes below global_batch: the k-th (from 0) is used by
// steps before which at least k * ramp_samples / n and fewer than (k + 1) * ramp_samples / n sequences were drawn.
// Without a ramp-up every step takes global_batch.
class BatchRamp {
 public:
  // The configuration must have passed its checks. Costs one addition per increment.
  explicit BatchRamp(const config::TrainConfig& config);

  int64_t batch_size(int64_t step) const;      // sequences of the step
  int64_t samples_before(int64_t step) const;  // sequences drawn by steps 1 .. step - 1

 private:
  // Consecutive steps of one size.
  struct Level {
    int64_t first_step, batch, samples_before;
  };
  const Level& level_of(int64_t step) const;

  std::vector<Level> levels_;
};

// Whether the update of the step is skipped: it lies in one of the ranges of skip_steps.
bool skipped(const config::TrainConfig& config, int64_t step);

}  // namespace terrace::data
