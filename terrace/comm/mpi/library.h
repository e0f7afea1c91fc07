// MPI's start and end, its errors as exceptions, its names for our types and sums.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "terrace/comm/call.h"

namespace terrace::comm {

// Throws CommError with the library's words where a call of MPI failed.
void check_mpi(int code, const char* call);

class MpiLibrary {
 public:
  MpiLibrary();  // throws UserError
  ~MpiLibrary();
  MpiLibrary(const MpiLibrary&) = delete;
  MpiLibrary& operator=(const MpiLibrary&) = delete;

  MPI_Datatype type_of(Type type) const;
  MPI_Op sum_of(Type type) const;
  // Frees the communicator, but not before MPI ends: a peer may still be in the last operation on it, and with Open MPI
  // 4.1.4 such a nonblocking operation then at times never completes there.
  void retire(MPI_Comm communicator) { retired_.push_back(communicator); }
  // Peers may be dead: MPI_Finalize would wait for them.
  void leave_unfinalized() { finalizes_ = false; }
  // Until the process ends: MPI may still write into it, or read it, after a failure.
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
