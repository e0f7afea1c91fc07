// Puts the launcher in front of the program.
#include "terrace/base/system/launch_command.h"

#include <cstdlib>

namespace terrace {

std::string chosen_launcher(const std::string& launcher) {
  if (launcher != "auto") return launcher;
  return std::getenv("SLURM_JOB_ID") != nullptr ? "srun" : "threads";
}

std::vector<std::string> launch_command(const std::string& launcher, int64_t ranks,
                                        const std::vector<std::string>& options,
                                        const std::vector<std::string>& program) {
  const std::string count = std::to_string(ranks);
  std::vector<std::string> command;
  if (launcher == "mpirun") command = {"mpirun", "-n", count};
  if (launcher == "srun") command = {"srun", "--mpi=pmix", "--exact", "--kill-on-bad-exit=1", "--ntasks=" + count};
  command.insert(command.end(), options.begin(), options.end());
  command.insert(command.end(), program.begin(), program.end());
  if (launcher == "threads") command.insert(command.end(), {"--ranks", count});
  return command;
}

}  // namespace terrace
