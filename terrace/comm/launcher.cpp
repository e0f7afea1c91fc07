// Reads the variables that launchers set: mpirun of Open MPI and MPICH, MVAPICH, PALS, and srun with and without PMI.
#include "terrace/comm/launcher.h"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>

namespace terrace::comm {
namespace {

std::optional<int64_t> number_in(const char* name, int64_t least) {
  const char* text = std::getenv(name);
  if (text == nullptr) return std::nullopt;
  int64_t number = 0;
  const char* end = text + std::strlen(text);
  const auto [stopped, error] = std::from_chars(text, end, number);
  if (error != std::errc() || stopped != end || number < least) return std::nullopt;
  return number;
}

}  // namespace

int64_t launched_processes() {
  // Processes of mpirun inside a Slurm job have the variables of both; those of mpirun come first.
  for (const char* size : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    if (const auto number = number_in(size, 1)) return *number;
  }
  for (const char* rank : {"PMIX_RANK", "PMI_RANK", "PALS_RANKID"}) {
    if (std::getenv(rank) != nullptr) return 0;
  }
  return 1;
}

int64_t launched_rank() {
  for (const char* rank :
       {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK", "PALS_RANKID", "SLURM_PROCID"}) {
    if (const auto number = number_in(rank, 0)) return *number;
  }
  return 0;
}

bool started_by_mpi() { return launched_processes() != 1; }

}  // namespace terrace::comm
