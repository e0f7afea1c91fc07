// Starts and finalizes MPI, turns its errors into exceptions, and maps our types and sums to MPI's.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "terrace/comm/call.h"

namespace terrace::comm {

// Throws CommError with the library's message where an MPI call failed.
void check_mpi(int code, const char* call);

class MpiLibrary {
 public:
  MpiLibrary();  // throws UserError
  ~MpiLibrary();
  MpiLibrary(const MpiLibrary&) = delete;
  MpiLibrary& operator=(const MpiLibrary&) = delete;

  MPI_Datatype type_of(Type type) const;
  MPI_Op sum_of(Type type) const;
  // Frees the communicator when MPI ends and not before: a peer may still be in the last operation on it, and with Open
  // MPI 4.1.4 such a nonblocking operation then sometimes never completes.
  void retire(MPI_Comm communicator) { retired_.push_back(communicator); }
  // Skips MPI_Finalize, which would wait for peers that may be dead.
  void leave_unfinalized() { finalizes_ = false; }
  // Keeps the memory until the process ends, since MPI may still read or write it after a failure.
  static void keep_for_ever(std::shared_ptr<const void> memory);

 private:
  bool finalizes_ = false;
  std::vector<MPI_Comm> retired_;
  MPI_Datatype bf16_ = MPI_DATATYPE_NULL;
  MPI_Datatype fp16_ = MPI_DATATYPE_NULL;
  MPI_Op sum_bf16_ = MPI_OP_NULL;
  MPI_Op sum_fp16_ = MPI_OP_NULL;
};

}  // namespace terrace::comm
