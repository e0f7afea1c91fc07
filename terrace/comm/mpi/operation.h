// A call that MPI works on. All of it happens under the engine's lock.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <chrono>
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

  // Begins where that has not happened yet, and goes on as far as it can without waiting; true when nothing is left to
  // do. Throws CommError. MPI may use this object's memory from the first call until that.
  virtual bool advance() = 0;

  // Of a call on memory of GPUs: nobody waits for it here, but the GPU does where let_gpu_wait() says so.
  virtual bool on_gpu() const { return false; }
  virtual void let_gpu_wait() {}
  virtual std::chrono::steady_clock::time_point began() const { return {}; }
  virtual void abandon() {}  // the run has failed: ends what would go on by itself

  // Of the call's buffers, which then live as long as this.
  void keep(Owner owner) { owner_ = std::move(owner); }

  // What is known of the ranks that a call without a time limit waits for.
  struct LongWait {
    std::chrono::steady_clock::time_point next_look, next_words;
    std::map<int64_t, std::chrono::steady_clock::time_point> silent_since;
  };
  LongWait long_wait;

  const Call& call() const { return call_; }
  MpiChannel& channel() const { return *channel_; }
  bool is_complete() const { return complete_.load(std::memory_order_acquire); }
  void set_complete() { complete_.store(true, std::memory_order_release); }

 private:
  std::shared_ptr<MpiChannel> channel_;
  Call call_;
  Owner owner_;
  std::atomic<bool> complete_ = false;
};

// Elements of a buffer.
struct Span {
  int64_t begin = 0;
  int64_t count = 0;
};

// A member's part where members have `longest` elements each of `total`, the last ones fewer or none.
inline Span part_of(int64_t member, int64_t longest, int64_t total) {
  const int64_t begin = member * longest;
  return {begin, std::clamp<int64_t>(total - begin, 0, longest)};
}

// A part's piece of up to `longest` elements, none behind its end.
inline Span piece_of(const Span& part, int64_t piece, int64_t longest) {
  const int64_t skipped = piece * longest;
  return {part.begin + skipped, std::clamp<int64_t>(part.count - skipped, 0, longest)};
}

inline bool is_collective(const Call& call) { return call.kind != Kind::send && call.kind != Kind::receive; }

using MpiOperationPointer = std::shared_ptr<MpiOperation>;

// True when all are complete, and leaves none then.
bool test_all(std::vector<MPI_Request>& requests);

// Starts the call as MPI's own nonblocking operations.
MpiOperationPointer start_native(std::shared_ptr<MpiChannel> channel, const Call& call);

// Starts an all_reduce or reduce_scatter that exchanges the terms and adds them here, folded in ascending order of
// ranks, 16-bit types in fp32. Sends as many bytes as a ring would.
MpiOperationPointer start_direct_sum(std::shared_ptr<MpiChannel> channel, const Call& call);

// Starts the call through memory that all members share, where the channel has boxes there. Its sums are as those
// above.
MpiOperationPointer start_in_boxes(std::shared_ptr<MpiChannel> channel, const Call& call);

// Starts the call in the one of these ways that serves it best.
MpiOperationPointer start_unchecked(std::shared_ptr<MpiChannel> channel, const Call& call);

// Starts the call on copies of its buffers, compared first where `checked`: after a failure MPI may go on with a call
// whose caller has left.
MpiOperationPointer start_on_copies(const std::shared_ptr<MpiChannel>& channel, const Call& call, bool checked);

// Compares what all members ask for before it starts the collective.
MpiOperationPointer start_checked(std::shared_ptr<MpiChannel> channel, const Call& call);

// Only compares.
MpiOperationPointer start_comparison(std::shared_ptr<MpiChannel> channel, const Call& call);

// Complete when every member of the channel's group has started it. Its call only says what it is for.
MpiOperationPointer start_arrival(std::shared_ptr<MpiChannel> channel, const Call& call);

}  // namespace terrace::comm
