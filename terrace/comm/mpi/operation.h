// A call that is made over MPI or shared memory. Operations are used under the engine's lock only.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "terrace/comm/mpi/channel.h"

namespace terrace::comm {

class MpiOperation {
 public:
  MpiOperation(std::shared_ptr<MpiChannel> channel, const Call& call) : channel_(std::move(channel)), call_(call) {}
  virtual ~MpiOperation() = default;
  MpiOperation(const MpiOperation&) = delete;
  MpiOperation& operator=(const MpiOperation&) = delete;

  // Starts the operation at the first call and continues it as far as possible without waiting. Returns true when it is
  // complete. Throws CommError. MPI may use this object's memory from the first call until completion.
  virtual bool advance() = 0;
  // Whether the operation moves on only while it is advanced often, as MPI's do; otherwise this member has only to
  // fetch what the others have prepared.
  virtual bool needs_polling() const { return true; }

  // Whether the buffers are in GPU memory: then no rank waits for the operation, and let_gpu_wait() makes the GPU wait.
  virtual bool on_gpu() const { return false; }
  virtual void let_gpu_wait() {}
  virtual std::chrono::steady_clock::time_point began() const { return {}; }
  virtual void abandon() {}  // the run has failed: ends work that would continue by itself

  // Takes the owner of the call's buffers, which then live as long as this object.
  void keep(Owner owner) { owner_ = std::move(owner); }

  // State of the wait of a call without a time limit.
  struct LongWait {
    std::chrono::steady_clock::time_point next_question, next_log_line;
    std::map<int64_t, std::chrono::steady_clock::time_point> silent_since;
  };
  LongWait long_wait;

  const Call& call() const { return call_; }
  MpiChannel& channel() const { return *channel_; }
  bool is_complete() const { return complete_.load(std::memory_order_acquire); }
  void set_complete() {
    completed_ = std::chrono::steady_clock::now();
    complete_.store(true, std::memory_order_release);
  }
  // The time when the operation became complete; only of a complete operation.
  std::chrono::steady_clock::time_point completed() const { return completed_; }

 private:
  std::shared_ptr<MpiChannel> channel_;
  Call call_;
  Owner owner_;
  std::chrono::steady_clock::time_point completed_;
  std::atomic<bool> complete_ = false;
};

// The elements [begin, begin + count) of a buffer.
struct BufferRange {
  int64_t begin = 0;
  int64_t count = 0;
};

// The part of a member where each member has `longest` of the `total` elements and the last members fewer or none.
inline BufferRange part_of(int64_t member, int64_t max_message_bytes, int64_t total) {
  const int64_t begin = member * max_message_bytes;
  return {begin, std::clamp<int64_t>(total - begin, 0, max_message_bytes)};
}

// The piece with this number of a part in pieces of `longest` elements; empty behind the end of the part.
inline BufferRange piece_of(const BufferRange& part, int64_t piece, int64_t max_message_bytes) {
  const int64_t skipped = piece * max_message_bytes;
  return {part.begin + skipped, std::clamp<int64_t>(part.count - skipped, 0, max_message_bytes)};
}

inline bool is_collective(const Call& call) { return call.kind != Kind::send && call.kind != Kind::receive; }

using MpiOperationPointer = std::shared_ptr<MpiOperation>;

// Returns true when all requests are complete, and then empties the list.
bool test_all(std::vector<MPI_Request>& requests);

// Starts the call as MPI's own nonblocking operations.
MpiOperationPointer start_native(std::shared_ptr<MpiChannel> channel, const Call& call);

// Starts an all_reduce or reduce_scatter that exchanges the terms and adds them on this rank in ascending order of
// ranks, 16-bit types in fp32. It sends as many bytes as a ring algorithm.
MpiOperationPointer start_direct_sum(std::shared_ptr<MpiChannel> channel, const Call& call);

// Starts an all_gather by doubling (doubling.h).
MpiOperationPointer start_doubling_gather(std::shared_ptr<MpiChannel> channel, const Call& call);

// Starts the call through the channel's slot rings in shared memory. Its sums are computed as those of a direct sum.
MpiOperationPointer start_in_shared_memory(std::shared_ptr<MpiChannel> channel, const Call& call);

// Starts the call in the fastest of these ways.
MpiOperationPointer start_unchecked(std::shared_ptr<MpiChannel> channel, const Call& call);

// Starts the call on copies of its buffers in host memory: MPI may use the copies after a failed caller has returned,
// and cannot use memory of a GPU. `copy` copies into them and out of them. Where `checked`, the members' calls are
// compared first.
using CopyBytes = std::function<void(void* to, const void* from, size_t bytes)>;
MpiOperationPointer start_on_copies(const std::shared_ptr<MpiChannel>& channel, const Call& call, bool checked,
                                    CopyBytes copy = std::memcpy);

// Compares the calls of all members before it starts the collective.
MpiOperationPointer start_checked(std::shared_ptr<MpiChannel> channel, const Call& call);

// Compares the calls of all members and starts nothing.
MpiOperationPointer start_comparison(std::shared_ptr<MpiChannel> channel, const Call& call);

// A barrier that works before the group has its own communicator. The call only carries the label.
MpiOperationPointer start_arrival_barrier(std::shared_ptr<MpiChannel> channel, const Call& call);

}  // namespace terrace::comm
