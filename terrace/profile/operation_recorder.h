// Records every operation on tensors and every phase, in all threads, while it lives.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "terrace/observe/trace.h"

namespace terrace::profile {

// Which thread computes for which rank, where ranks are threads. Filled and read by any thread.
class RankThreads {
 public:
  void add(int64_t rank);  // the calling thread's
  // Of the calling thread; the one rank's where there is but one, -1 where a thread is none of several ranks'.
  int64_t own() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::thread::id, int64_t> ranks_;
};

// Listens to torch's recorder, which also sees the operations of the backward pass, and turns on the records of our own
// (terrace/ops/record.h). On a GPU each operation is waited for, so that its time is the device's and not only that of
// its launch; steps are slower for it. At most one may record at a time: torch's callbacks are plain functions.
class OperationRecorder {
 public:
  struct State;
  enum class Records { everything, phases };

  // `ranks` outlives it; none: all threads are the first rank's. Phases alone cost next to nothing.
  explicit OperationRecorder(const at::Device& device, const RankThreads* ranks = nullptr,
                             Records records = Records::everything);
  OperationRecorder(const OperationRecorder&) = delete;
  ~OperationRecorder();

  // Ends the recording and gives what was recorded; lanes are threads, the one that made this object first. Spans that
  // have not ended are left out. Empty when called again.
  observe::Trace finish();

 private:
  std::shared_ptr<State> state_;
};

}  // namespace terrace::profile
