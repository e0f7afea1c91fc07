// The words of a command that starts a program of this project on several ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace terrace {

// Replaces "auto" by "srun" inside a job of Slurm and by "threads" elsewhere; returns other words as they are.
std::string chosen_launcher(const std::string& launcher);

// `program` is the program with its first arguments. Under "mpirun" and "srun" each rank is a process, and `options`
// are further words for the launcher; steps of one job of Slurm share it, each on processors of its own. With "threads"
// the program gets --ranks.
std::vector<std::string> launch_command(const std::string& launcher, int64_t ranks,
                                        const std::vector<std::string>& options,
                                        const std::vector<std::string>& program);

}  // namespace terrace
