// Makes the micro-batches of the next steps while a step is computed, on a thread of its own.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "terrace/data/source.h"

namespace terrace::data {

class BatchesAhead {
 public:
  using Make = std::function<std::vector<MicroBatch>(int64_t step)>;
  // `make` gives the micro-batches of a step, the same ones whenever it is called, and is called on the thread.
  // At most `ahead` steps are made before they are taken, and none beyond `last`. The thread begins with the first
  // take.
  BatchesAhead(Make make, int64_t last, int64_t ahead = 2);
  BatchesAhead(const BatchesAhead&) = delete;
  // Waits for the step that is being made, and makes no other.
  ~BatchesAhead();

  // The micro-batches of a step. An error of make() for this step is thrown here. Usually steps are taken in order:
  // before any other step, what was made is thrown away.
  std::vector<MicroBatch> take(int64_t step);

 private:
  struct Made {
    int64_t step = 0;
    std::vector<MicroBatch> batches = {};
    std::exception_ptr error = nullptr;
  };

  void run();

  Make make_;
  int64_t last_;
  size_t ahead_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Made> made_;  // consecutive steps
  int64_t next_ = 0;       // the step that the thread makes next, or is making
  int64_t course_ = 0;     // counts the jumps: what was begun before one is thrown away
  bool stops_ = false;
  std::thread thread_;
};

}  // namespace terrace::data
