// The NCCL backend: calls of a group on memory of GPUs, one GPU a rank. The processes find each other and stay in touch
// by MPI (mpi_nccl.cpp); here is what one member does. On AMD's GPUs the same files are compiled against RCCL. Where
// terrace is built without the CUDA kernels, made_with_nccl() is false and nothing else may be called.
#pragma once

#include <array>
#include <functional>
#include <memory>

#include "terrace/comm/call.h"
#include "terrace/mesh/group.h"

namespace terrace::comm {

bool made_with_nccl();

// Whether the memory is a GPU's; false for memory of the machine, and for nullptr.
bool is_on_gpu(const void* data);

// Copies on the GPU, in the order of its default stream.
void copy_on_gpu(const void* from, void* to, int64_t bytes);

// By which the members of a group find each other: made by one of them and handed to all.
using NcclId = std::array<char, 3 * 128>;
NcclId make_nccl_id();

// A call that has been given to the GPU.
class NcclCall {
 public:
  virtual ~NcclCall() = default;
  virtual bool done() = 0;  // returns at once; throws CommError
  // Lets what is given to the GPU's default stream from now on wait for the call. Does not wait itself.
  virtual void let_default_stream_wait() = 0;
};

// One member's end of a group's communicators, each with a stream of its own: of collectives, of messages to members
// further on, and of messages to members further back. Calls begin when what was given to the default stream before
// them is done, and those of one communicator are made one after another in the order in which the member starts them.
// For one thread at a time, but for abort().
class NcclChannel {
 public:
  // A collective of the group. `check` is called again and again while the others are waited for; what it throws ends
  // the waiting. With sums in rank order members exchange their terms and add them in ascending order of ranks, 16-bit
  // types in fp32, as every other backend does; NCCL's own sums come in an order of its choice. Throws CommError.
  NcclChannel(const NcclId& id, const mesh::Group& group, int64_t member, int gpu, bool rank_order,
              std::function<void()> check);
  ~NcclChannel();
  NcclChannel(const NcclChannel&) = delete;
  NcclChannel& operator=(const NcclChannel&) = delete;

  std::shared_ptr<NcclCall> start(const Call& call);  // throws CommError
  // Ends what is under way on the GPU; every later call throws. From any thread.
  void abort();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace terrace::comm
