// A copy of one byte to the host behind each call.
#include "terrace/comm/nccl/end_marks.h"

#include <map>

namespace terrace::comm {

EndMarks::EndMarks() {
  void* bytes = nullptr;
  check_gpu(cudaHostAlloc(&bytes, most_marks, cudaHostAllocPortable), "cudaHostAlloc");
  bytes_ = static_cast<char*>(bytes);
  check_gpu(cudaMalloc(&one_, 1), "cudaMalloc");
  check_gpu(cudaMemset(one_, 1, 1), "cudaMemset");
}

EndMark EndMarks::unused() {
  {
    const std::lock_guard lock(mutex_);
    if (!unused_.empty()) {
      const EndMark mark = unused_.back();
      unused_.pop_back();
      return mark;
    }
  }
  const size_t number = made_++;
  TERRACE_CHECK(number < most_marks, "more than {} calls at a time", most_marks);
  return {.event = make_event(), .byte = bytes_ + number};
}

// The event comes first, so that what waits for it does not wait for the copy. The stream's next call does: some
// microseconds.
EndMark EndMarks::put(cudaStream_t stream) {
  const EndMark mark = unused();
  std::atomic_ref(*mark.byte).store(0, std::memory_order_relaxed);
  check_gpu(cudaEventRecord(mark.event, stream), "cudaEventRecord");
  check_gpu(cudaMemcpyAsync(mark.byte, one_, 1, cudaMemcpyDeviceToHost, stream), "cudaMemcpyAsync");
  return mark;
}

void EndMarks::give_back(const EndMark& mark) {
  if (!mark.reached()) return;
  const std::lock_guard lock(mutex_);
  unused_.push_back(mark);
}

EndMarks& end_marks_of(int gpu) {
  static auto* const all = new std::map<int, EndMarks>;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  return (*all)[gpu];
}

}  // namespace terrace::comm
