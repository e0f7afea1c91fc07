// Events of GPUs, and errors of calls to their runtime as exceptions.
#pragma once

#include <fmt/format.h>

#include "gpu_runtime.h"
#include "terrace/comm/comm.h"

namespace terrace::comm {

// Throws CommError with the name of the call where it failed.
inline void check_gpu(cudaError_t error, const char* call) {
  if (error != cudaSuccess) throw CommError(fmt::format("{} failed: {}", call, cudaGetErrorString(error)));
}

// A CUDA event, recorded on a stream of a GPU at construction.
class Event {
 public:
  Event(int gpu, cudaStream_t stream) : gpu_(gpu) {
    check_gpu(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    check_gpu(cudaEventRecord(event_, stream), "cudaEventRecord");
  }
  ~Event() { static_cast<void>(cudaEventDestroy(event_)); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  // Called by threads that have not chosen a GPU: on any other than the event's the query would open a context.
  bool reached() const {
    check_gpu(cudaSetDevice(gpu_), "cudaSetDevice");
    const cudaError_t state = cudaEventQuery(event_);
    if (state == cudaErrorNotReady) {
      // HIP keeps it as the last error, which the next launch of this thread would take for its own.
      static_cast<void>(cudaGetLastError());
      return false;
    }
    check_gpu(state, "cudaEventQuery");
    return true;
  }
  void hold(cudaStream_t stream) const { check_gpu(cudaStreamWaitEvent(stream, event_, 0), "cudaStreamWaitEvent"); }

 private:
  int gpu_;
  cudaEvent_t event_ = nullptr;
};

}  // namespace terrace::comm
