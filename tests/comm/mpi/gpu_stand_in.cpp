// Replaces the CUDA functions that the backend calls, without a GPU: gpu_memory stands for a GPU's memory, streams are
// threads that run in order, and the default stream is the caller. A free waits for all streams. It cannot show whether
// real GPUs behave the same way. NCCL's functions are in nccl_stand_in.cpp.
#include "tests/comm/mpi/gpu_stand_in.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "gpu_runtime.h"
#include "terrace/comm/nccl/sum.h"
#include "terrace/comm/sum.h"
#include "tests/comm/mpi/gpu_stand_in_streams.h"

// An event: it is reached when the stream comes to where it has been recorded last.
struct CUevent_st {
  std::shared_future<void> reached = {};
};

namespace {

struct Streams {
  std::mutex mutex;
  std::map<cudaStream_t, std::shared_ptr<CUstream_st>> all;
};
Streams& streams = *new Streams;  // for as long as a stream may run

thread_local int device = -1;  // -1: this thread has chosen none
thread_local cudaError_t last_error = cudaSuccess;

// Held by a thread in a call of the runtime, also while the call waits for a stream, as drivers sometimes do.
std::recursive_mutex runtime;
using InRuntime = std::lock_guard<std::recursive_mutex>;

// Ends the process for a call that is right with one GPU and wrong with several: where a thread has chosen none, its
// calls go to number 0, on which they open a context.
void expect_chosen_device(const char* call) {
  if (device >= 0) return;
  std::fprintf(stderr, "a thread that has chosen no GPU calls %s\n", call);
  std::abort();
}

// Ends the process where an error is left, as the launch of a kernel takes the last error of its thread for its own.
void expect_no_last_error() {
  if (last_error == cudaSuccess) return;
  std::fprintf(stderr, "a launch finds the error of an earlier call\n");
  std::abort();
}

}  // namespace

constexpr int greatest_priority = -5;  // of streams; lower numbers come first

int chosen_device() { return device; }

// Counts GPUs as under a launcher that shows each rank only some of the machine's: the variable says where they begin.
int bus_of(int number) {
  const char* const first = std::getenv("STAND_IN_FIRST_GPU");
  return number + (first == nullptr ? 0 : std::atoi(first));
}

void wait_for_all_streams() {
  std::map<cudaStream_t, std::shared_ptr<CUstream_st>> all;
  {
    const std::lock_guard lock(streams.mutex);
    all = streams.all;
  }
  for (const auto& [handle, stream] : all) stream->wait_until_idle();
}

namespace terrace::comm {

void sum_on_gpu(Type type, const void* terms, int64_t num_terms, int64_t count, void* to, cudaStream_t stream) {
  if (count == 0) return;
  expect_no_last_error();
  stream->add([=] {
    const auto* const first = static_cast<const char*>(gpu_memory::reachable(terms));
    std::vector<const void*> from;
    for (int64_t i = 0; i < num_terms; ++i) from.push_back(first + i * count * size_of(type));
    void* const result[] = {gpu_memory::reachable(to)};
    sum_members(type, from, result, 0, count);
  });
}

}  // namespace terrace::comm

extern "C" {

cudaError_t cudaSetDevice(int number) {
  const InRuntime in_runtime(runtime);
  return device = number, cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* address, int length, int number) {
  std::snprintf(address, static_cast<size_t>(length), "0000:%02X:00.0", bus_of(number));
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const InRuntime in_runtime(runtime);
  return stream == nullptr ? cudaSuccess : cudaErrorInvalidValue;
}
cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
const char* cudaGetErrorString(cudaError_t) { return "an error of the stand-in"; }
cudaError_t cudaMalloc(void** memory, size_t bytes) {
  const InRuntime in_runtime(runtime);
  expect_chosen_device("cudaMalloc");
  return *memory = gpu_memory::allocate(bytes), cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  const InRuntime in_runtime(runtime);
  wait_for_all_streams();
  return gpu_memory::release(memory), cudaSuccess;
}
cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned) {
  const InRuntime in_runtime(runtime);
  return *memory = new char[bytes], cudaSuccess;
}
cudaError_t cudaMemset(void* memory, int value, size_t bytes) {
  const InRuntime in_runtime(runtime);
  return std::memset(gpu_memory::reachable(memory), value, bytes), cudaSuccess;
}
// The stand-in refuses host memory, as HIP does.
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* memory) {
  const InRuntime in_runtime(runtime);
  attributes->type = cudaMemoryTypeDevice;
  return gpu_memory::is_on_gpu(memory) ? cudaSuccess : last_error = cudaErrorInvalidValue;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  const InRuntime in_runtime(runtime);
  const auto copy = [=] {
    void* const there = gpu_memory::reachable(to);
    const void* const here = gpu_memory::reachable(from);
    // A mark, which another thread may read meanwhile.
    if (bytes == 1) {
      std::atomic_ref(*static_cast<char*>(there)).store(*static_cast<const char*>(here), std::memory_order_release);
    } else {
      std::memcpy(there, here, bytes);
    }
  };
  if (stream == nullptr) return copy(), cudaSuccess;
  return stream->add(copy), cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = greatest_priority;
  return cudaSuccess;
}
// Streams of the least priority are those of computations, which transfers must not wait for.
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int priority) {
  const InRuntime in_runtime(runtime);
  expect_chosen_device("cudaStreamCreateWithPriority");
  if (priority != greatest_priority) return cudaErrorInvalidValue;
  const auto made = std::make_shared<CUstream_st>();
  *stream = made.get();
  const std::lock_guard lock(streams.mutex);
  streams.all.emplace(*stream, made);
  return cudaSuccess;
}
// Like HIP's, it keeps what is no error as the last one.
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  const InRuntime in_runtime(runtime);
  return stream->is_idle() ? cudaSuccess : last_error = cudaErrorNotReady;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const InRuntime in_runtime(runtime);
  std::shared_ptr<CUstream_st> last;
  {
    const std::lock_guard lock(streams.mutex);
    last = std::move(streams.all.extract(stream).mapped());
  }
  stream->add({});
  stream->thread.join();
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  const InRuntime in_runtime(runtime);
  expect_chosen_device("cudaEventCreateWithFlags");
  return *event = new CUevent_st, cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const InRuntime in_runtime(runtime);
  return delete event, cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const InRuntime in_runtime(runtime);
  const auto promise = std::make_shared<std::promise<void>>();
  event->reached = promise->get_future().share();
  if (stream == nullptr) return promise->set_value(), cudaSuccess;
  stream->add([promise] { promise->set_value(); });
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const InRuntime in_runtime(runtime);
  if (stream == nullptr) return event->reached.wait(), cudaSuccess;
  stream->add([reached = event->reached] { reached.wait(); });
  return cudaSuccess;
}

}  // extern "C"
