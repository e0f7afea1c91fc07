// Broadcasts by MPI's own communicator of all processes.
#include <mpi.h>

#include <cstdint>

#include "terrace/comm/mpi/library.h"
#include "terrace/comm/mpi/mpi.h"

namespace terrace::comm {

std::string broadcast_bytes(const std::shared_ptr<MpiLibrary>& /*library*/, std::string bytes) {
  auto size = static_cast<int64_t>(bytes.size());
  check_mpi(MPI_Bcast(&size, 1, MPI_INT64_T, 0, MPI_COMM_WORLD), "MPI_Bcast");
  bytes.resize(static_cast<size_t>(size));
  check_mpi(MPI_Bcast(bytes.data(), static_cast<int>(size), MPI_BYTE, 0, MPI_COMM_WORLD), "MPI_Bcast");
  return bytes;
}

}  // namespace terrace::comm
