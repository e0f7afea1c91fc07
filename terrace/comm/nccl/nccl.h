// The NCCL backend: calls of a group on GPU memory, one GPU for each rank. The processes exchange ids and monitor each
// other over MPI (mpi/gpu_group.cpp); this file is one member's side. For AMD GPUs the same files are compiled against
// RCCL. In a build without the CUDA kernels made_with_nccl() is false and nothing else may be called.
#pragma once

#include <array>
#include <functional>
#include <memory>

#include "terrace/comm/call.h"
#include "terrace/mesh/group.h"

namespace terrace::comm {

bool made_with_nccl();

// Whether the memory is on a GPU; false for host memory and for nullptr.
bool is_on_gpu(const void* data);

// Copies on the GPU, ordered by its default stream.
void copy_on_gpu(const void* from, void* to, int64_t bytes);

// The ids of a group's communicators, by which its members connect. One member makes them and broadcasts them.
using NcclId = std::array<char, 3 * 128>;
NcclId make_nccl_id();

// A call that has been enqueued on the GPU.
class NcclCall {
 public:
  virtual ~NcclCall() = default;
  virtual bool done() = 0;  // returns at once; throws CommError
  // Makes later work on the GPU's default stream wait for the call. Returns at once.
  virtual void let_default_stream_wait() = 0;
};

// One member's side of the three communicators of a group: for collectives, for messages to higher members and for
// messages to lower members. Each has its own stream. A call begins when earlier work on the default stream is done,
// and the calls of one communicator run one after another in the order in which the member starts them. For one thread
// at a time, except abort().
class NcclChannel {
 public:
  // A collective of the group. It calls `check` repeatedly while it waits for the others, and throws what `check`
  // throws. With `rank_order` the members exchange their terms and add them in ascending order of ranks, 16-bit types
  // in fp32, as every other backend does; NCCL's own sums have an order of its choice. Throws CommError.
  NcclChannel(const NcclId& id, const mesh::Group& group, int64_t member, int gpu, bool rank_order,
              std::function<void()> check);
  ~NcclChannel();
  NcclChannel(const NcclChannel&) = delete;
  NcclChannel& operator=(const NcclChannel&) = delete;

  std::shared_ptr<NcclCall> start(const Call& call);  // throws CommError
  // Ends the calls that run on the GPU; every later call throws. May be called from any thread.
  void abort();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace terrace::comm
