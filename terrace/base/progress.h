// A bar with an estimate on a terminal, a sparse log line otherwise.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace terrace {

// Shows how far a piece of work is, on standard error. Not thread-safe: call from one thread. Nothing is shown in the
// first two seconds; the bar is redrawn at most ten times a second, a log line comes at most every `line_seconds`.
class Progress {
 public:
  using Clock = std::chrono::steady_clock;

  // `total` in any unit; 0 where unknown. `start` is where a resumed piece of work begins: it does not count as speed.
  Progress(std::string title, uint64_t total, uint64_t start = 0, double line_seconds = 30);
  ~Progress();
  Progress(const Progress&) = delete;

  // `detail` is shown behind the bar, such as "loss 3.21".
  void update(uint64_t done, const std::string& detail = "");
  // Removes the bar so that other output starts on a clean line.
  void clear();

  // Seconds left at the mean speed so far; negative where it cannot be known yet.
  double seconds_left(uint64_t done) const;

 private:
  std::string title_;
  uint64_t total_, start_;
  double line_seconds_;
  bool terminal_;
  bool drawn_ = false;
  Clock::time_point began_, shown_;
};

}  // namespace terrace
