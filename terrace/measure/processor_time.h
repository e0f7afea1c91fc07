// The processor time of a thread, which other work on the machine affects less than the time on the clock.
#pragma once

#include <ATen/Parallel.h>

#include <ctime>
#include <functional>

namespace terrace::measure {

// Seconds of processor time that the calling thread has used.
inline double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Seconds since some moment, for the thread that asks.
using Clock = std::function<double()>;

// While an object of this class exists, a product takes one thread, in this thread and in threads started meanwhile.
class OneThread {
 public:
  OneThread() : threads_(at::get_num_threads()) { at::set_num_threads(1); }
  ~OneThread() { at::set_num_threads(threads_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

  int threads() const { return threads_; }

 private:
  int threads_;
};

}  // namespace terrace::measure
