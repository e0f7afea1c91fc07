// Tells how far runs are, and whether they still train, from the files in their folders and, where a job of Slurm is
// recorded there, from squeue.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "terrace/base/text/json.h"
#include "terrace/launch/slurm.h"

namespace terrace::launch {

// queued: its job waits for nodes; held: its job waits and does not begin by itself; stopped: a run that saved and
// ended before its last step and can be resumed.
enum class RunState { queued, held, running, done, stopped, failed };
std::string_view word_of(RunState state);

struct RunStatus {
  std::string folder;
  RunState state = RunState::running;
  std::string reason = {};                        // of this state; "" where it needs none
  std::string job = {};                           // Slurm's number; "": none is recorded
  int64_t step = 0, steps = 0;                    // done, and in all; steps 0: not known yet
  std::optional<double> loss = {};                // of the last step
  std::string items = "tokens";                   // what the family counts
  std::optional<double> items_per_second = {};    // median over the last steps
  std::optional<double> seconds_left = {};        // by the median time of the last steps; of runs that are not done
  std::optional<double> seconds_since_sign = {};  // since the run last wrote into its folder
  std::string last_words = {};                    // the last line of the job's log that is not blank
};

// The longest time for which a run on another machine may write nothing before it counts as dead: two minutes and ten
// of its longest recent steps.
double silence_allowed(double longest_step_seconds);

// A process that trains on this host is looked for by its id and the time of its start. On another host Slurm is asked
// for its job; where there is none, or Slurm cannot be asked, a run that has been silent for too long counts as failed.
// Throws UserError that names every folder which holds no run.
std::vector<RunStatus> status_of(const std::vector<std::filesystem::path>& folders,
                                 const AskForJobs& ask_for_jobs = ask_squeue);

// One line for each run, in columns.
std::string text_of(const std::vector<RunStatus>& runs);
// {"runs": [{"folder", "state", "reason", "job", "step", "steps", "loss", "tokens_per_second", "seconds_left",
// "seconds_since_sign", "last_words"}]}; what is not known is null.
Json json_of(const std::vector<RunStatus>& runs);

}  // namespace terrace::launch
