// Batch-size ramp-up, phases and skipped steps: computes the batch size of any step, and how many sequences were drawn
// before it, in constant time. Steps are counted from 1, as in metrics.jsonl.
#pragma once

#include <cstdint>
#include <vector>

#include "terrace/config/config.h"

namespace terrace::data {

// The batch begins at ramp_start and grows by ramp_increment n = (global_batch - ramp_start) / ramp_increment times.
// The ramp_samples sequences are divided evenly among the n sizes below global_batch: the k-th (from 0) is used by
// steps before which at least k * ramp_samples / n and fewer than (k + 1) * ramp_samples / n sequences were drawn.
// Without a ramp-up every step takes global_batch. A phase with another global_batch ends the ramp-up.
class BatchRamp {
 public:
  // The configuration must have passed its checks. The cost is one addition for each increment.
  explicit BatchRamp(const config::TrainConfig& config, const std::vector<config::Phase>& phases = {});

  int64_t batch_size(int64_t step) const;      // sequences of the step
  int64_t samples_before(int64_t step) const;  // sequences drawn by steps 1 .. step - 1

 private:
  // Consecutive steps with the same batch size.
  struct SizeInterval {
    int64_t first_step, batch, samples_before;
  };
  const SizeInterval& interval_of(int64_t step) const;

  std::vector<SizeInterval> intervals_;
};

// Returns whether the update of the step is skipped, because the step lies in one of the ranges of skip_steps.
bool skipped(const config::TrainConfig& config, int64_t step);

}  // namespace terrace::data
