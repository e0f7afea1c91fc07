// Compares the losses of a rehearsal with those of the same model on one rank.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "terrace/config/config.h"
#include "terrace/train/trainer.h"
#include "terrace/verify/verify.h"

namespace terrace::rehearse {

// Losses of a step in the order of samples: each is the sum over a group of consecutive samples, of which all groups
// have equally many.
using StepLosses = std::vector<double>;

// The losses that the ranks of a run note after each step.
class LossLog {
 public:
  // A micro-batch's samples are consecutive unless the family's samples differ in size: then a step is one group.
  LossLog(const config::Config& config, int64_t data_ranks);

  // The samples of a group, and their number in a step.
  int64_t group_samples() const { return group_samples_; }
  int64_t groups() const { return groups_; }

  // Called by each rank after its step.
  void note(const train::Trainer& trainer);
  // Forgets the steps after this one, which are made again.
  void forget_after(int64_t step);
  // Called after the run.
  const std::vector<StepLosses>& steps() const { return steps_; }

 private:
  int64_t group_samples_ = 0, groups_ = 1;
  std::mutex mutex_;
  std::vector<StepLosses> steps_;
};

// The errors of the losses, each the distance from a run in double precision, by the rule of terrace verify: they hold
// where they are at most twice those of one rank, plus one rounding. `narrowed` is the configuration of the log.
verify::ErrorPair loss_error(const config::Config& narrowed, const LossLog& log);

}  // namespace terrace::rehearse
