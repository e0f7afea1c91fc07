// Replaces comm/mpi/ in a build without an MPI library.
#include "terrace/base/error.h"
#include "terrace/comm/mpi/mpi.h"

namespace terrace::comm {

class MpiLibrary {};

bool made_with_mpi() { return false; }

std::shared_ptr<MpiLibrary> start_mpi() {
  throw UserError(
      "this build of terrace has no MPI: install an MPI library (on Debian libopenmpi-dev and openmpi-bin) and build "
      "again, or run the ranks as threads of one process with --ranks");
}

std::string broadcast_bytes(const std::shared_ptr<MpiLibrary>&, std::string bytes) { return bytes; }

std::unique_ptr<World> make_mpi_world(const WorldOptions&) { return start_mpi(), nullptr; }

std::unique_ptr<World> make_mpi_world(std::shared_ptr<MpiLibrary>, const WorldOptions&, const MpiLimits&) {
  return start_mpi(), nullptr;
}

}  // namespace terrace::comm
