// Passes turns from thread to thread.
#include "terrace/comm/threads/turns.h"

#include <utility>

namespace terrace::comm {
namespace {

thread_local const Turns* taken = nullptr;  // by this thread

}  // namespace

void Sleeper::wake() {
  const std::lock_guard lock(mutex_);
  woken_ = true;
  condition_.notify_one();  // with the lock, since the sleeper may be destroyed as soon as it wakes
}

void Sleeper::sleep() {
  std::unique_lock lock(mutex_);
  condition_.wait(lock, [this] { return woken_; });
}

bool Sleeper::sleep_until(Deadline deadline) {
  std::unique_lock lock(mutex_);
  return condition_.wait_until(lock, deadline, [this] { return woken_; });
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

void Turns::give_up() {
  if (!takes_turns()) return;
  const std::lock_guard lock(mutex_);
  --running_;
  run_next();
}

void Turns::make_ready(Sleeper& sleeper, bool takes_turns) {
  if (!takes_turns) return sleeper.wake();
  const std::lock_guard lock(mutex_);
  ready_.push_back(&sleeper);
  run_next();
}

// Wakes ready threads, the last one first, while fewer run than may.
void Turns::run_next() {
  while (!ready_.empty() && running_ < at_a_time_) {
    Sleeper& next = *ready_.back();
    ready_.pop_back();
    ++running_;
    ++passed_;
    next.wake();
  }
}

void Turns::look_for_stall() {
  const std::lock_guard lock(mutex_);
  if (std::exchange(passed_before_, passed_) != passed_) return;
  for (Sleeper* sleeper : std::exchange(ready_, {})) {
    ++running_;
    ++passed_;
    sleeper->wake();
  }
}

}  // namespace terrace::comm
