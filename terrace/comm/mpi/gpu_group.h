// Groups of MPI ranks whose buffers lie on GPUs: NCCL communicators that are set up and monitored over MPI.
#pragma once

#include <memory>

#include "terrace/comm/mpi/engine.h"
#include "terrace/comm/nccl/nccl.h"

namespace terrace::comm {

// Makes the group's communicators on this rank's GPU. It is a collective of the members, which must be known to take
// part. Throws CommError where the run fails or the time-out passes meanwhile.
std::shared_ptr<NcclChannel> connect_gpus(MpiEngine& engine, const std::shared_ptr<MpiChannel>& channel, int gpu,
                                          double timeout_seconds);

// Starts the call and returns it as an operation of the engine, which detects that it is late and ends it when the run
// fails.
MpiOperationPointer start_on_gpu(std::shared_ptr<MpiChannel> channel, std::shared_ptr<NcclChannel> gpus,
                                 const Call& call);

}  // namespace terrace::comm
