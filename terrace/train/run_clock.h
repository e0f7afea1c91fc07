// The clock by which a rank measures its steps, computations and messages.
#pragma once

#include <chrono>

namespace terrace::train {

// A clock of a rank's own in place of this machine's, such as that of a rehearsal, which counts predicted seconds.
class RunClock {
 public:
  virtual ~RunClock() = default;
  virtual double seconds() const = 0;  // since some moment
  virtual double waited() const = 0;   // of them, for other ranks
};

// Seconds since some moment on the given clock, or on this machine's for null.
inline double seconds_on(const RunClock* clock) {
  if (clock != nullptr) return clock->seconds();
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace terrace::train
