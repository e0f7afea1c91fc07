// Gathers one measured step from all ranks of a run, with the critical path of the step and what would shorten it.
#pragma once

#include <optional>
#include <vector>

#include "terrace/observe/rank_profiles.h"
#include "terrace/train/step_recorder.h"
#include "terrace/train/trainer.h"

namespace terrace::run {

// A rank's own record of a measured step.
struct OwnStep {
  std::vector<train::TimedInstruction> instructions;
  std::vector<observe::GroupWait> groups;
  int64_t micro_batches = 0;
};

// The calls of each of the rank's groups of several members so far.
std::vector<observe::GroupWait> calls_of(parallel::CutModel& cut);
// `before` are the calls before the step.
OwnStep own_step(train::Trainer& trainer, std::vector<train::TimedInstruction> instructions,
                 const std::vector<observe::GroupWait>& before);

// Called by all ranks together with their records of one step; the result is on the first rank. Each rank's profile
// travels as a text of about a KiB, and the instructions of one rank of each stage. On CPUs the links are measured.
std::optional<observe::ProfiledRanks> profiled_ranks(train::Trainer& trainer, const observe::StepRecord& record,
                                                     const OwnStep& own);

// The text of each rank, in their order, on every rank.
std::vector<std::string> gathered_texts(comm::Comm& all, const std::string& own);

}  // namespace terrace::run
