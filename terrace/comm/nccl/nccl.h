// The NCCL backend: calls of a group on GPU memory, one GPU for each rank. The processes exchange ids and monitor each
// other over MPI (mpi/gpu_group.cpp); this file is one member's side. For AMD GPUs the same files are compiled against
// RCCL. In a build without the CUDA kernels made_with_nccl() is false and nothing else may be called.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "terrace/comm/call.h"
#include "terrace/comm/comm.h"
#include "terrace/mesh/group.h"

namespace terrace::comm {

bool made_with_nccl();

// Whether the memory is on a GPU; false for host memory and for nullptr.
bool is_on_gpu(const void* data);

// Copies on the GPU, ordered by its default stream.
void copy_on_gpu(const void* from, void* to, int64_t bytes);

// Copies between any two of host and GPU, after earlier work on the GPU's default stream; returns when it is done.
// Throws CommError.
void copy_and_wait(int gpu, void* to, const void* from, size_t bytes);

// Returns the GPU's address on the machine's buses, such as "0000:c1:00.0". A rank may see the GPU under several
// numbers; this one alone is the same in all processes. Throws CommError.
std::string gpu_bus_address(int gpu);

// Sets environment variables where the user has not. A process that is one of several ranks calls this at its start,
// before it has other threads and calls CUDA. NCCL then connects the members of a group when their communicator is
// made, instead of in their first collective. CUDA loads all kernels when it starts, not each at its first use, since
// loading waits for the work of the GPU, and so for calls that wait for other ranks. Removes NCCL_COMM_BLOCKING and
// NCCL_COMM_SPLIT_SHARE_RESOURCES, with which calls could not be ended.
void prepare_for_ranks();

// The ids of a group's communicators, by which its members connect: one for collectives and one for each direction. One
// member makes them and broadcasts them.
constexpr size_t nccl_id_bytes = 128;
using NcclIds = std::vector<char>;
NcclIds make_nccl_ids(size_t communicators);

// A call that has been enqueued on the GPU.
class NcclCall {
 public:
  virtual ~NcclCall() = default;
  virtual bool done() = 0;  // returns at once; throws CommError
  // Makes later work on the GPU's default stream wait for the call. Returns at once.
  virtual void let_default_stream_wait() = 0;
};

// One member's side of the communicators of a group: one of all members for collectives, and one of two members for
// each of its directions. Each has its own stream. A call begins when earlier work on the default stream is done, and
// the calls of one communicator run one after another in the order in which the member starts them; calls of different
// communicators do not wait for each other. One thread at a time may call its functions, except abort().
class NcclChannel {
 public:
  // A collective of the group, with the same directions on all members, which also connects both ends of each: NCCL
  // does so in the first message, where a member would wait for the other end. It calls `check` repeatedly while it
  // waits for the others, and throws what `check` throws. With `rank_order` the members exchange their terms and add
  // them in ascending order of ranks, 16-bit types in fp32, as every other backend does; NCCL's own sums have an order
  // of its choice. Throws CommError.
  NcclChannel(const NcclIds& ids, const mesh::Group& group, int64_t member,
              const std::vector<mesh::Direction>& directions, int gpu, bool rank_order,
              const std::function<void()>& check);
  ~NcclChannel();
  NcclChannel(const NcclChannel&) = delete;
  NcclChannel& operator=(const NcclChannel&) = delete;

  // Returns when the call is enqueued, by the calling thread. It may wait for the other members where NCCL connects
  // them in the call, and for the GPU where that has many calls to make; abort() ends these waits. Throws CommError.
  std::shared_ptr<NcclCall> start(const Call& call);
  // Waits until all calls are done, and calls `check` meanwhile. Throws CommError where the GPU has failed, and what
  // `check` throws.
  void wait_for_calls(const std::function<void()>& check);
  // Gives the communicators up, together with the other members. No call may be started afterwards. What is left to the
  // destructor, which any thread may run, makes no call of the GPU's runtime then.
  void close();
  // Ends the calls that run on the GPU; every later call throws. May be called from any thread.
  void abort();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace terrace::comm
