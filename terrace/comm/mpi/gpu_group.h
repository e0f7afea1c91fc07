// Groups of MPI ranks whose buffers lie on GPUs: NCCL's communicators, made and watched by way of MPI.
#pragma once

#include <memory>

#include "terrace/comm/mpi/engine.h"
#include "terrace/comm/nccl/nccl.h"

namespace terrace::comm {

// The group's communicator on this rank's GPU; a collective of its members, who have all come. Throws CommError where
// the run fails or the time-out passes meanwhile.
std::shared_ptr<NcclChannel> connect_gpus(MpiEngine& engine, const std::shared_ptr<MpiChannel>& channel, int gpu,
                                          double timeout_seconds);

// The call as an operation of the engine, which finds out when it is late and ends it when the run fails.
MpiOperationPointer start_on_gpu(std::shared_ptr<MpiChannel> channel, std::shared_ptr<NcclChannel> gpus,
                                 const Call& call);

}  // namespace terrace::comm
