// Rehearses a run: all its ranks train as threads of this process, each with the real mesh, groups, lists, calls,
// executor and checkpoint, but a narrowed model. docs/rehearsal.md says what that shows and what it cannot show.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "terrace/base/text/json_fwd.h"
#include "terrace/config/config.h"
#include "terrace/plan/target.h"
#include "terrace/rehearse/clocked_run.h"
#include "terrace/rehearse/narrowed_run.h"
#include "terrace/rehearse/process_usage.h"
#include "terrace/verify/verify.h"

namespace terrace::rehearse {

struct RehearsalOptions {
  NarrowOptions narrow;
  bool compares = true;       // the losses with those of one rank
  bool timed = false;         // with clocks
  int64_t micro_batches = 0;  // of each rank in a step; 0: those of the configuration
  // Ranks whose computations take 1 + so much as long as the others', on their clocks.
  std::map<int64_t, double> slow_ranks = {};
};

struct Rehearsal {
  int64_t ranks = 0, nodes = 0, stages = 1, micro_batches = 1;
  int64_t parameters = 0, wide_parameters = 0;
  std::string layout;
  std::vector<verify::KeyChange> changes;
  // Seconds on this machine, on which all ranks share the cores: until every rank is ready for its first step, of each
  // step, and from there to the end, in which the checkpoint is written.
  double start_seconds = 0, end_seconds = 0;
  std::vector<double> step_seconds = {};
  double processor_seconds = 0;         // of all threads together
  ProcessUsage before = {}, most = {};  // of this process, before the ranks began and while they ran
  std::vector<double> losses = {};      // of each step
  std::optional<verify::ErrorPair> loss_error = {};
  std::optional<ClockedSteps> clocked = {};  // only of a timed rehearsal
  int64_t checkpoint_files = 0, checkpoint_bytes = 0;
  std::vector<std::string> findings = {};  // what a launch should change or know, as sentences

  bool holds() const { return !loss_error || loss_error->holds(); }
  double rank_bytes() const;  // beside what the process had before
};

// Throws UserError if the layout does not fit the devices or this machine cannot hold the ranks, and CommError where
// the ranks wait for each other for ever, make different calls or fail.
Rehearsal rehearse(const config::Config& config, const plan::Target& target, const RehearsalOptions& options);

std::string text_of(const Rehearsal& rehearsal);
Json json_of(const Rehearsal& rehearsal);

}  // namespace terrace::rehearse
