// Progress of long work: a bar with the estimated time left on a terminal, occasional log lines otherwise.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "terrace/base/system/start_watch.h"

namespace terrace {

// Shows the progress on standard error. It is not thread-safe: call it from one thread. Nothing is shown in the first
// two seconds; the bar is redrawn at most ten times a second, and a log line is written at most every `line_seconds`.
class Progress {
 public:
  using Clock = std::chrono::steady_clock;

  // `total` is in any unit, 0 where it is unknown. Resumed work begins at `start`, which does not count for the speed.
  // `now` tells the time.
  Progress(std::string title, uint64_t total, uint64_t start = 0, double line_seconds = 30,
           std::function<Clock::time_point()> now = Clock::now);
  ~Progress();
  Progress(const Progress&) = delete;

  // `detail` is shown behind the bar, such as "loss 3.21".
  void update(uint64_t done, const std::string& detail = "");
  // Removes the bar so that other output starts on a clean line.
  void clear();

  // Seconds left at the mean speed so far; negative where they are not known yet.
  double seconds_left(uint64_t done) const;

 private:
  double seconds_since(Clock::time_point when) const;

  std::string title_;
  Activity activity_;
  uint64_t total_, start_;
  double line_seconds_;
  std::function<Clock::time_point()> now_;
  bool terminal_;
  bool drawn_ = false;
  Clock::time_point began_, shown_;
};

}  // namespace terrace
