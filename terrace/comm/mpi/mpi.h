// The MPI backend: ranks are processes that mpirun or srun started. Where no MPI library was found when terrace was
// built, made_with_mpi() is false and make_mpi_world refuses.
#pragma once

#include <memory>

#include "terrace/comm/comm.h"
#include "terrace/comm/launcher.h"
#include "terrace/comm/mpi/shared_memory.h"

namespace terrace::comm {

bool made_with_mpi();

// MPI, started once in a process and finalized when the last world on it has ended, unless one of them ended in an
// error: its peers may never come to MPI_Finalize.
class MpiLibrary;
std::shared_ptr<MpiLibrary> start_mpi();  // throws UserError where the library or the start cannot serve

// Smaller in tests, so that short buffers reach what only long ones do.
struct MpiLimits {
  int64_t elements_per_call = int64_t{1} << 30;  // MPI counts in int
  int64_t chunk_bytes = int64_t{1} << 20;        // of one member's part in a sum of our own
  int64_t gathered_bytes = 4096;                 // up to here each member gets all terms of a sum and adds them itself
  // Sums of our own are used in groups of up to so many members, and where a member's part is as large as this.
  int64_t direct_members = 8;
  int64_t direct_part_bytes = int64_t{32} << 10;
  // Groups of up to so many processes, all on one machine, make their calls through boxes in memory that they share. A
  // box holds about what a rank that computes moves each time its progress thread looks.
  static constexpr int64_t most_box_members = 16;
  int64_t box_members = most_box_members;
  BoxSize boxes = {.slots = 32, .slot_bytes = int64_t{32} << 10};
};

// The world of all processes of the launch, a collective call. Calls go on while the rank computes: a thread polls what
// is outstanding every 200 microseconds. Waiting ranks poll without pause at first, and every 50 microseconds in a long
// wait.
std::unique_ptr<World> make_mpi_world(const WorldOptions& options);
std::unique_ptr<World> make_mpi_world(std::shared_ptr<MpiLibrary> library, const WorldOptions& options,
                                      const MpiLimits& limits = {});

}  // namespace terrace::comm
