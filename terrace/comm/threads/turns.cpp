// Passes turns from thread to thread.
#include "terrace/comm/threads/turns.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <utility>

namespace terrace::comm {
namespace {

thread_local const Turns* taken = nullptr;  // by this thread

}  // namespace

void Sleeper::wake() {
  woken_.store(1, std::memory_order_release);
  // The object may have ended by now; the system only compares the address with those of threads that sleep.
  ::syscall(SYS_futex, &woken_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

bool Sleeper::sleep_until(Deadline deadline) {
  timespec time = {};
  const timespec* limit = nullptr;
  if (deadline != Deadline::max()) {
    const auto since_epoch = deadline.time_since_epoch();
    const auto seconds = std::chrono::floor<std::chrono::seconds>(since_epoch);
    time.tv_sec = seconds.count();
    time.tv_nsec = std::chrono::nanoseconds(since_epoch - seconds).count();
    limit = &time;
  }
  while (woken_.load(std::memory_order_acquire) == 0) {
    // FUTEX_WAIT_BITSET takes a point in time of the clock that steady_clock reads.
    const long result =
        ::syscall(SYS_futex, &woken_, FUTEX_WAIT_BITSET_PRIVATE, 0, limit, nullptr, FUTEX_BITSET_MATCH_ANY);
    if (result != 0 && errno == ETIMEDOUT) return woken_.load(std::memory_order_acquire) != 0;
  }
  return true;
}

void Turns::enter() {
  if (at_a_time_ == 0) return;
  taken = this;
  Sleeper self;
  make_ready(self, true);
  self.sleep();
}

void Turns::leave() {
  give_up();
  if (takes_turns()) taken = nullptr;
}

bool Turns::takes_turns() const { return taken == this; }

// Threads are woken without the mutex: the system may let a woken thread run in place of the one that woke it, and all
// threads that need the mutex would wait for that one.
void Turns::give_up() {
  if (!takes_turns()) return;
  Sleeper* next = nullptr;
  {
    const std::lock_guard lock(mutex_);
    --running_;
    next = take_next();
  }
  if (next != nullptr) next->wake();
}

void Turns::make_ready(Sleeper& sleeper, bool takes_turns) {
  if (!takes_turns) return sleeper.wake();
  Sleeper* next = nullptr;
  {
    const std::lock_guard lock(mutex_);
    ready_.push_back(&sleeper);
    next = take_next();
  }
  if (next != nullptr) next->wake();
}

Sleeper* Turns::take_next() {
  if (ready_.empty() || running_ >= at_a_time_) return nullptr;
  Sleeper* const next = ready_.back();
  ready_.pop_back();
  ++running_;
  ++passed_;
  return next;
}

void Turns::look_for_stall() {
  std::vector<Sleeper*> stalled;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(passed_before_, passed_) != passed_) return;
    stalled.swap(ready_);
    running_ += std::ssize(stalled);
    passed_ += stalled.size();
  }
  for (Sleeper* const sleeper : stalled) sleeper->wake();
}

}  // namespace terrace::comm
