// A training run as a job: how many ranks, how long, when it must begin to save, and what fits on the disks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "terrace/base/text/json.h"
#include "terrace/config/config.h"
#include "terrace/machine/machine.h"
#include "terrace/plan/prediction.h"

namespace terrace::launch {

struct JobRequest {
  std::string config_file;
  std::vector<std::string> overrides = {};  // of --set
  config::Config config = {};               // of both
  machine::Machine machine = {};            // whose [launch] says how jobs are started there
  int64_t nodes = 1;                        // each with a rank on every device
  int64_t spares = 0;                       // nodes of the job beside these, which take the places of lost ones
  std::string machine_name = {};            // of --machine, for a job that has spares and calls this program again
  double time_seconds = 0;                  // of the job; 0: as the prediction says
  double signal_seconds = 0;                // before its end, when the run is asked to save; 0: as the prediction says
  bool with_slurm = true;                   // false: a command of mpirun, without a time or a signal
  bool until_done = false;                  // the job goes back into the queue until train.steps are made
  std::string program = "terrace";          // that trains
  // An archive of the installation that is copied to each node and unpacked there before the training, whose program
  // then trains; "": none.
  std::string archive = {};
  // The maker of the GPUs for which the program that trains has kernels; "": it has none; no value: not known.
  std::optional<std::string> kernels_for = {};
  // More options of sbatch, such as "--qos=debug"; they count before those of the machine.
  std::vector<std::string> sbatch_options = {};
  std::filesystem::path working_folder = {};  // from which relative paths of the configuration count
};

struct Job {
  JobRequest request;
  plan::Prediction prediction = {};
  int64_t ranks = 1, ranks_per_node = 1;

  int64_t all_nodes() const { return request.nodes + request.spares; }

  double run_seconds = 0;  // predicted, of all steps
  double time_seconds = 0, signal_seconds = 0;
  double checkpoint_bytes = 0, save_seconds = 0;
  std::optional<int64_t> checkpoints_that_fit = {};  // on the run folder's disk, as it is now; no value: not known
  bool stages = false;                               // checkpoints are staged on the node's disk
  int64_t data_stage_bytes = 0;                      // of the data that are staged there; 0: none
  std::vector<std::string> notes = {};               // what the user should know before submitting

  std::filesystem::path run_folder() const;
  // "terrace-demo" for a run in runs/demo.
  std::string name() const;
  std::filesystem::path log_file(const std::string& job_number) const;
};

// A step and a save, doubled, and a minute, as whole minutes; at least two minutes. Slurm sends the signal up to a
// minute early.
double signal_seconds_for(double step_seconds, double save_seconds);

// Predicts the run and makes all checks. Throws UserError as a plan does: with ExitCode::infeasible where the memory is
// short, else for layouts and machines that do not fit, both with --best as a way out; and for options of sbatch that
// the script has already or cannot have, nodes and times that the site does not allow, and times that are too short to
// train in.
Job make_job(JobRequest request);

// The prediction on which the job's numbers are based, in a few lines for people.
std::string summary_of(const Job& job);
// {"ranks", "nodes", "spares", "step_seconds", "time_seconds", "signal_seconds", "checkpoint_bytes", "save_seconds",
// "checkpoints_that_fit", "run_folder", "notes"}.
Json json_of(const Job& job);

}  // namespace terrace::launch
