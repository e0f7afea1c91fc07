// Gives a job to Slurm.
#pragma once

#include <string>

#include "terrace/launch/job.h"

namespace terrace::launch {

// Writes the script as job.sh into the run's folder, submits it, and records the job there (job.json). Returns Slurm's
// number. Throws UserError where the site wants an account and none is given, where no checkpoint fits, where a job of
// this run still waits or runs, or with sbatch's words.
std::string submit(const Job& job, const std::string& script);

}  // namespace terrace::launch
