// A communicator of NCCL, and the stream on which its calls run one after another.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <utility>

#include "gpu_runtime.h"

namespace terrace::comm {

// Calls are made on a blocking communicator: NCCL enqueues each call of a nonblocking one with a new thread, which
// takes the rank several times as long. A thread that waits in a blocking one must be released from outside, and while
// it is there the communicator may not be aborted, which frees it. So it is split from a nonblocking one, its root,
// that makes no calls and shares with it connections, and the flag by which NCCL ends what runs or waits: aborting the
// root releases the thread.
class Communicator {
 public:
  explicit Communicator(std::string group) : group_(std::move(group)) {}
  ~Communicator() { close(); }
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // Three steps connect it. A rank that has several takes each step with all of them, since it waits for other ranks in
  // the next; it calls `check` repeatedly meanwhile, and throws what `check` throws. No other thread may use it before
  // it is connected. Throws CommError.
  void begin_to_connect(const char* id, int members, int own, int most_multiprocessors);
  void begin_to_split(const std::function<void()>& check);
  void wait_until_connected(const std::function<void()>& check);

  // The communicator and the stream for NCCL's functions, in one thread at a time.
  ncclComm_t calls() const { return calls_; }
  cudaStream_t stream() const { return stream_; }

  // Throws CommError where the network has failed. Any thread may call it.
  void throw_if_failed();
  // Ends the calls that run on the GPU and those in which a thread waits. Returns when the GPU has left them, and those
  // of other communicators, for which NCCL may wait too. Any thread may call it.
  void abort();
  // Gives the communicator up, together with the other members. No other thread may make a call meanwhile.
  void close();

 private:
  void wait_for_root(const std::function<void()>& check);
  void release(ncclComm_t root) const;
  ncclResult_t state_of(ncclComm_t root) const;
  ncclConfig_t config(bool blocking) const;

  const std::string group_;
  int member_ = 0, most_multiprocessors_ = 0;
  std::atomic<bool> aborted_ = false;
  std::mutex mutex_;  // of root_
  ncclComm_t root_ = nullptr;
  ncclComm_t calls_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

// Throws CommError with the name of the call where it failed; a call in progress has not.
void check_nccl(ncclResult_t result, const char* call, const std::string& group);

}  // namespace terrace::comm
