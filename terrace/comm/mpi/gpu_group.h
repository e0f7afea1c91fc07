// Groups of MPI ranks whose buffers lie on GPUs: NCCL communicators that are set up and monitored over MPI.
#pragma once

#include <memory>

#include "terrace/comm/mpi/engine.h"
#include "terrace/comm/nccl/nccl.h"

namespace terrace::comm {

// Makes the group's communicators on this rank's GPU. It is a collective of the members, which must be known to take
// part. Throws CommError where the run fails or the time-out passes meanwhile.
std::shared_ptr<NcclChannel> connect_gpus(MpiEngine& engine, const std::shared_ptr<MpiChannel>& channel,
                                          const std::vector<mesh::Direction>& directions, int gpu,
                                          double timeout_seconds);

// Adds the call to the engine's operations and starts it; called without the engine's lock. The engine detects that the
// call is late, also while it starts, and ends it when the run fails. Throws CommError.
MpiOperationPointer start_on_gpu(MpiEngine& engine, const std::shared_ptr<MpiChannel>& channel,
                                 const std::shared_ptr<NcclChannel>& gpus, const Call& call);

}  // namespace terrace::comm
