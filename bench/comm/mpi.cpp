// Times the collectives of our MPI backend as bench_comm_mpi_peer times MPI's own. Usage: mpirun -n RANKS
// bench_comm_mpi.
#include "terrace/comm/mpi/mpi.h"

#include <cstring>

#include "operations.h"

int main(int argc, char** argv) {
  const bool rank_order = argc > 1 && std::strcmp(argv[1], "--rank-order") == 0;
  const auto world = terrace::comm::make_mpi_world({.rank_order = rank_order});
  terrace::bench::time_operations(*world);
}
