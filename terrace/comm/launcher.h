// Finds out from the environment which launcher started this process.
#pragma once

#include <cstdint>

namespace terrace::comm {

// The number of processes that mpirun, srun or another launcher with PMI or PMIx started together with this one. 1
// where the environment names no launcher, 0 where it names one without a number of processes.
int64_t launched_processes();

// The rank of this process among them, 0 where the environment does not give it.
int64_t launched_rank();

// Whether a launcher started this process as one of several. Reads the environment only.
bool started_by_mpi();

}  // namespace terrace::comm
