// The texts that start a job: a script for sbatch, or a command of mpirun.
#pragma once

#include <string>
#include <vector>

#include "terrace/launch/job.h"

namespace terrace::launch {

// A script of bash. It records the job in the run's folder (job.json), loads the modules, sets the environment, spreads
// the archive if there is one, and trains with --resume auto by one srun. Code 0 of srun counts only where the run's
// folder says that all steps are made, since srun ends so too where it loses ranks; it is 5 otherwise, or 4 of a run
// that was stopped. With until_done it puts itself back into the queue after exit code 4, after a failure of a rank or
// node (5, or a signal), but only where a newer checkpoint was written since it began; 1, 2 and 3 end it. With
// request.spares the job has so many nodes more and keeps those that are left when one fails (--no-kill), and a
// supervisor (terrace launch --run) starts the ranks in place of srun. `command` is what wrote the script, for its
// second line.
std::string slurm_script(const Job& job, const std::string& command);

// One line for a shell, with the machine's environment; no modules are loaded.
std::string mpirun_command(const Job& job);

// The commands of a supervisor, each a line for /bin/sh that becomes the launcher: one that starts the ranks on these
// nodes, of which there are request.nodes, and one that starts the keeper of a node (terrace keep-node). The launcher
// is srun, inside of a job, or mpirun.
std::string ranks_command(const Job& job, const std::vector<std::string>& nodes);
std::string keeper_command(const Job& job, const std::string& node);

}  // namespace terrace::launch
