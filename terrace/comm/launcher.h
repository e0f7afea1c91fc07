// Who started this process, as its environment says.
#pragma once

#include <cstdint>

namespace terrace::comm {

// Processes of the launch that this one belongs to: by mpirun, srun or another launcher that speaks PMI or PMIx. 1
// where nobody says so, 0 where a launcher is named but not how many it started.
int64_t launched_processes();

// This process's number in its launch, 0 where nobody says it.
int64_t launched_rank();

// Whether mpirun, srun or the like started this process as one of several. Asks the environment alone.
bool started_by_mpi();

}  // namespace terrace::comm
