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

// The marks of all streams of one GPU. They live as long as the process, since the last to look at one may be the
// monitoring thread, and are used again when they are given back.
class EndMarks {
 public:
  // Allocates memory on the GPU that the thread has chosen, where nothing runs on it that waits for other ranks. Throws
  // CommError.
  EndMarks();
  EndMarks(const EndMarks&) = delete;
  EndMarks& operator=(const EndMarks&) = delete;

  // Puts a mark behind the work that the stream has now. Only threads that may wait for the GPU call it. Throws
  // CommError.
  EndMark put(cudaStream_t stream);
  // Makes no call of the runtime and waits for none, so any thread may. A mark that is not reached is not used again.
  void give_back(const EndMark& mark);

 private:
  static constexpr size_t most_marks = size_t{1} << 16;  // calls at a time

  EndMark unused();

  std::mutex mutex_;  // of unused_
  std::vector<EndMark> unused_;
  std::atomic<size_t> made_ = 0;
  char* bytes_ = nullptr;  // [most_marks], in host memory
  void* one_ = nullptr;    // a byte of value 1 on the GPU
};

// Returns the marks of the GPU, which are made at their first use. Throws CommError.
EndMarks& end_marks_of(int gpu);

}  // namespace terrace::comm
