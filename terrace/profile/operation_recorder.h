// Records every operation on tensors and every phase in all threads.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "terrace/observe/trace.h"

namespace terrace::profile {

// The rank for which each thread computes, if ranks are threads. Any thread may add to the object and read it.
class RankThreads {
 public:
  void add(int64_t rank);  // the calling thread's
  // The rank of the calling thread. If there is only one rank, all threads are its; else -1 if the thread was not
  // added.
  int64_t own() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::thread::id, int64_t> ranks_;
};

// Records from its construction to finish(). Listens to torch's recorder, which also sees the operations of the
// backward pass, and turns on the records of our own operations (terrace/profile/record.h). On a GPU it waits for each
// operation, so that its time is the device's and not only that of its launch; this makes steps slower. At most one
// recorder may be active at a time, since torch's callbacks are plain functions.
class OperationRecorder {
 public:
  struct State;
  enum class Records { everything, phases };

  // `ranks` must outlive the recorder; null: all threads belong to the first rank. Recording only phases costs next to
  // nothing.
  explicit OperationRecorder(const at::Device& device, const RankThreads* ranks = nullptr,
                             Records records = Records::everything);
  OperationRecorder(const OperationRecorder&) = delete;
  ~OperationRecorder();

  // Ends the recording and returns it. Lanes are threads; the first lane is the thread that made this object. Spans
  // that have not ended are left out. A second call returns an empty trace.
  observe::Trace finish();

 private:
  std::shared_ptr<State> state_;
};

}  // namespace terrace::profile
