// Turns of many ranks that share few cores: at most so many of them run at a time, and the others sleep. Whichever rank
// became ready last runs first, since what it and the ranks around it need is still in the caches; where the system
// divides the cores evenly among all ranks that are ready, each of them finds its data evicted.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <vector>

namespace terrace::comm {

// A thread that sleeps until it is woken, once. It may end the object as soon as it wakes: a mutex beside a condition
// would make it wait again for the thread that woke it.
class Sleeper {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  void wake();
  void sleep() { sleep_until(Deadline::max()); }
  // Returns false where the deadline passes first.
  bool sleep_until(Deadline deadline);

 private:
  std::atomic<uint32_t> woken_ = 0;
};

// Thread-safe. Threads that take no turn, such as those that write a rank's checkpoint, use the functions as well and
// are woken at once.
class Turns {
 public:
  // 0 at a time: all threads are woken at once.
  explicit Turns(int64_t at_a_time) : at_a_time_(at_a_time) {}

  // The calling thread takes turns from now on, until it ends with leave(). Returns when it has its first one.
  void enter();
  void leave();

  // The calling thread, which will sleep, lets another one run.
  void give_up();
  // Wakes the thread when it is its turn. `takes_turns` as takes_turns() returned on that thread.
  void make_ready(Sleeper& sleeper, bool takes_turns);
  bool takes_turns() const;

  // To be called now and then: where no turn has passed to another thread since the last time and threads are ready,
  // all of these run, since those that run may wait for something else than a call, as for a file or for a thread of
  // their own that waits for one of these.
  void look_for_stall();

 private:
  // The thread that runs next where fewer run than may, or null. To be called with the mutex.
  Sleeper* take_next();

  const int64_t at_a_time_;
  std::mutex mutex_;
  std::vector<Sleeper*> ready_;
  int64_t running_ = 0;
  uint64_t passed_ = 0, passed_before_ = 0;
};

}  // namespace terrace::comm
