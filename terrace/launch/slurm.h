// Asks Slurm by its own commands.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace terrace::launch {

struct CommandOutput {
  int code = 0;        // of the shell; 127: there is no such program
  std::string output;  // standard output and error together, without blanks at its end
};

// Runs a line of a shell to its end.
CommandOutput output_of(const std::string& shell_command);

struct SlurmJob {
  std::string state;   // "PENDING", "RUNNING", "TIMEOUT", ..
  std::string reason;  // for which it waits, such as "Resources"; "None" otherwise

  bool is_waiting() const;
  // Says how to let a job begin that waits and does not begin by itself, as a sentence's end, such as "scontrol release
  // 12 lets it begin"; "" for every other job.
  std::string way_out_of_hold(const std::string& number) const;
  // Whether it holds nodes, or is about to get or leave them.
  bool is_active() const;
};

// The states of jobs that Slurm knows, by their numbers. Jobs that it has forgotten, minutes after their end, are not
// in it. No value where Slurm cannot be asked: there is no squeue, or its controller does not answer.
using JobsByNumber = std::map<std::string, SlurmJob>;
using AskForJobs = std::function<std::optional<JobsByNumber>(const std::vector<std::string>&)>;

// Asks by one call of squeue, which may take 30 seconds. Words that are no number are left out.
std::optional<JobsByNumber> ask_squeue(const std::vector<std::string>& jobs);

// Submits the script and returns the job's number. Throws UserError with sbatch's words.
std::string submit_script(const std::string& file);

}  // namespace terrace::launch
