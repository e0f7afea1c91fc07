// Marks at the ends of the calls on GPUs: an event for other streams, and a byte in host memory that the stream sets,
// for the thread that monitors calls. That thread calls nothing of the GPU's runtime: any such call may wait while the
// rank waits for a copy from the GPU, and so for the very call that is late.
#pragma once

#include <fmt/format.h>

#include <atomic>
#include <mutex>
#include <vector>

#include "gpu_runtime.h"
#include "terrace/base/error.h"
#include "terrace/comm/comm.h"

namespace terrace::comm {

// Throws CommError with the name of the call where it failed.
inline void check_gpu(cudaError_t error, const char* call) {
  if (error != cudaSuccess) throw CommError(fmt::format("{} failed: {}", call, cudaGetErrorString(error)));
}

inline cudaEvent_t make_event() {
  cudaEvent_t event = nullptr;
  check_gpu(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  return event;
}

struct EndMark {
  cudaEvent_t event = nullptr;
  char* byte = nullptr;  // in host memory, 1 when the GPU has come to the mark

  bool reached() const { return std::atomic_ref(*byte).load(std::memory_order_acquire) != 0; }
};

// The marks of one GPU's streams; those that are given back are used again.
class EndMarks {
 public:
  EndMarks() = default;
  EndMarks(const EndMarks&) = delete;
  EndMarks& operator=(const EndMarks&) = delete;
  ~EndMarks();

  // Allocates the memory, for the GPU that the thread has chosen. Called once, where nothing runs on it that waits for
  // other ranks.
  void prepare();
  // A mark behind the work that the stream has now. Throws CommError.
  EndMark put(cudaStream_t stream);
  // Makes no call of the runtime, so any thread may. A mark that is not reached is not used again.
  void give_back(const EndMark& mark);

 private:
  static constexpr size_t most_marks = size_t{1} << 16;  // calls at a time

  EndMark unused();

  std::mutex mutex_;
  std::vector<EndMark> all_, unused_;
  char* bytes_ = nullptr;  // [most_marks], in host memory
  void* one_ = nullptr;    // a byte of value 1 on the GPU
};

inline EndMarks::~EndMarks() {
  for (const EndMark& mark : all_) static_cast<void>(cudaEventDestroy(mark.event));
  static_cast<void>(cudaFreeHost(bytes_));
  static_cast<void>(cudaFree(one_));
}

inline void EndMarks::prepare() {
  void* bytes = nullptr;
  check_gpu(cudaHostAlloc(&bytes, most_marks, cudaHostAllocPortable), "cudaHostAlloc");
  bytes_ = static_cast<char*>(bytes);
  check_gpu(cudaMalloc(&one_, 1), "cudaMalloc");
  check_gpu(cudaMemset(one_, 1, 1), "cudaMemset");
}

inline EndMark EndMarks::unused() {
  const std::lock_guard lock(mutex_);
  if (!unused_.empty()) {
    const EndMark mark = unused_.back();
    unused_.pop_back();
    return mark;
  }
  TERRACE_CHECK(all_.size() < most_marks, "more than {} calls at a time", most_marks);
  return all_.emplace_back(EndMark{.event = make_event(), .byte = bytes_ + all_.size()});
}

// The event comes first, so that what waits for it does not wait for the copy.
inline EndMark EndMarks::put(cudaStream_t stream) {
  const EndMark mark = unused();
  std::atomic_ref(*mark.byte).store(0, std::memory_order_relaxed);
  check_gpu(cudaEventRecord(mark.event, stream), "cudaEventRecord");
  check_gpu(cudaMemcpyAsync(mark.byte, one_, 1, cudaMemcpyDeviceToHost, stream), "cudaMemcpyAsync");
  return mark;
}

inline void EndMarks::give_back(const EndMark& mark) {
  if (!mark.reached()) return;
  const std::lock_guard lock(mutex_);
  unused_.push_back(mark);
}

}  // namespace terrace::comm
