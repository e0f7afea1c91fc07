// The MPI backend: ranks are processes that mpirun or srun started. In a build without an MPI library made_with_mpi()
// is false and make_mpi_world throws UserError.
#pragma once

#include <memory>
#include <string>

#include "terrace/comm/comm.h"
#include "terrace/comm/launcher.h"
#include "terrace/comm/mpi/shared_memory.h"

namespace terrace::comm {

bool made_with_mpi();

// MPI is started once in a process and finalized when the last world on it has ended. It is not finalized where a world
// ended in an error, since its peers may never call MPI_Finalize.
class MpiLibrary;
std::shared_ptr<MpiLibrary> start_mpi();  // throws UserError where the MPI library or the launch is unusable

// The bytes of the first process, on every process of the launch, before there is a world. A collective.
std::string broadcast_bytes(const std::shared_ptr<MpiLibrary>& library, std::string bytes);

// Sizes at which the backend changes its algorithm. Tests make them smaller, so that short buffers take all paths.
struct MpiLimits {
  int64_t elements_per_call = int64_t{1} << 30;  // MPI counts in int
  int64_t piece_bytes = int64_t{1} << 20;        // of one member's part in a direct sum
  int64_t gathered_bytes = 4096;                 // up to this size each member gets all terms of a sum and adds them
  // Direct sums are used in groups of up to direct_members, and where a member's part has at least direct_part_bytes.
  int64_t direct_members = 8;
  int64_t direct_part_bytes = int64_t{32} << 10;
  // Groups of up to ring_members processes, all on one machine, make their calls through slot rings in shared memory. A
  // ring holds about what the progress thread of a rank that computes moves at each poll.
  static constexpr int64_t most_ring_members = 16;
  int64_t ring_members = most_ring_members;
  RingSize rings = {.slots = 32, .slot_bytes = int64_t{32} << 10};
};

// The world of all processes of the launch; a collective. Calls make progress while the rank computes: a thread polls
// the outstanding operations every 200 microseconds. A waiting rank polls without pause at first, and every 50
// microseconds in a long wait.
std::unique_ptr<World> make_mpi_world(const WorldOptions& options);
std::unique_ptr<World> make_mpi_world(std::shared_ptr<MpiLibrary> library, const WorldOptions& options,
                                      const MpiLimits& limits = {});

}  // namespace terrace::comm
