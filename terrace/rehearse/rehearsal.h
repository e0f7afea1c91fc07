// Rehearses a run: all its ranks train as threads of this process, each with the real mesh, groups, lists, calls,
// executor and checkpoint, but a narrowed model. docs/rehearsal.md says what that shows and what it cannot show.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "terrace/base/text/json_fwd.h"
#include "terrace/config/config.h"
#include "terrace/observe/slowness_file.h"
#include "terrace/plan/target.h"
#include "terrace/rehearse/clocked_run.h"
#include "terrace/rehearse/killed_rank.h"
#include "terrace/rehearse/narrowed_run.h"
#include "terrace/rehearse/process_usage.h"
#include "terrace/verify/verify.h"

namespace terrace::rehearse {

struct RehearsalOptions {
  NarrowOptions narrow;                   // with 0 steps the ranks only start
  bool compares = true;                   // the losses with those of one rank
  bool compares_start = true;             // with that of half as many ranks
  bool timed = false;                     // with clocks
  int64_t micro_batches = 0;              // of each rank in a step; 0: those of the configuration
  SlowParts slow = {};                    // of a timed rehearsal
  std::optional<KilledRank> killed = {};  // of one without clocks, in a step after the first
};

// The time and memory until all ranks are ready for their first step.
struct StartCost {
  int64_t ranks = 0;
  double seconds = 0, processor_seconds = 0;
  int64_t bytes = 0;  // beside what the process had before
};

struct Rehearsal {
  int64_t ranks = 0, nodes = 0, stages = 1, micro_batches = 1;
  int64_t parameters = 0, wide_parameters = 0;
  std::string layout;
  std::vector<verify::KeyChange> changes;
  StartCost start = {};
  std::optional<StartCost> start_of_half = {};  // of half as many ranks, where the layout allows them
  // Seconds on this machine, on which all ranks share the cores: of each step, and from there to the end, in which the
  // checkpoint is written.
  std::vector<double> step_seconds = {};
  double end_seconds = 0;
  double processor_seconds = 0;         // of all threads together
  ProcessUsage before = {}, most = {};  // of this process, before the ranks began and while they ran
  std::vector<double> losses = {};      // of each step
  std::optional<verify::ErrorPair> loss_error = {};
  std::optional<ClockedSteps> clocked = {};  // only of a timed rehearsal
  std::vector<observe::Slowness> slow = {};  // the ranks and links that the run named as slow
  std::optional<KillReport> killed = {};
  int64_t checkpoint_files = 0, checkpoint_bytes = 0;
  std::vector<std::string> findings = {};  // what a launch should change or know, as sentences

  bool holds() const { return (!loss_error || loss_error->holds()) && (!killed || killed->same_bits); }
  double rank_bytes() const;  // beside what the process had before
};

// Throws UserError if the layout does not fit the devices or this machine cannot hold the ranks, and CommError where
// the ranks wait for each other for ever, make different calls or fail.
Rehearsal rehearse(const config::Config& config, const plan::Target& target, const RehearsalOptions& options);

std::string text_of(const Rehearsal& rehearsal);
Json json_of(const Rehearsal& rehearsal);

}  // namespace terrace::rehearse
