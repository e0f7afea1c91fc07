// Replaces the CUDA and NCCL functions that the backend calls, without a GPU: host memory counts as GPU memory, streams
// are threads, the default stream is the caller, and members of a communicator share memory by its id. It cannot show
// whether real GPUs behave alike.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <queue>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gpu_runtime.h"
#include "terrace/comm/nccl/sum.h"
#include "terrace/comm/sum.h"

using Task = std::function<void()>;

// A stream is a thread that runs its tasks one after another.
struct CUstream_st {
  CUstream_st() : thread([this] { run(); }) {}

  void add(Task task) {
    const std::lock_guard lock(mutex);
    tasks.push(std::move(task));
    changed.notify_one();
  }
  void run() {
    while (true) {
      std::unique_lock lock(mutex);
      changed.wait(lock, [this] { return !tasks.empty(); });
      const Task task = std::move(tasks.front());
      tasks.pop();
      lock.unlock();
      if (!task) return;
      task();
    }
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::queue<Task> tasks;
  std::thread thread;
};

struct CUevent_st {
  std::shared_ptr<std::promise<void>> promise = std::make_shared<std::promise<void>>();
  std::shared_future<void> reached = promise->get_future().share();
};

namespace {

constexpr int most_members = 4;
constexpr size_t slot_bytes = 1 << 16;

// Messages that one member has sent to another and that the other has not received yet.
struct Slot {
  std::atomic<uint64_t> written, taken;
  char data[slot_bytes];
};

struct Shared {
  std::atomic<int> arrived;
  Slot slots[most_members][most_members];
};

int64_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclFloat64:
    case ncclInt64:
      return 8;
    case ncclFloat32:
    case ncclInt32:
      return 4;
    case ncclBfloat16:
    case ncclFloat16:
      return 2;
    default:
      return 1;
  }
}

terrace::comm::Type type_of(ncclDataType_t type) {
  using enum terrace::comm::Type;
  switch (type) {
    case ncclFloat64:
      return fp64;
    case ncclFloat32:
      return fp32;
    case ncclBfloat16:
      return bf16;
    case ncclFloat16:
      return fp16;
    case ncclInt64:
      return int64;
    case ncclInt32:
      return int32;
    default:
      return uint8;
  }
}

// The operations of the calling thread between ncclGroupStart and ncclGroupEnd.
struct Group {
  int depth = 0;
  cudaStream_t stream = nullptr;
  std::vector<Task> tasks;
};
thread_local Group open_group;

void begin(cudaStream_t stream, Task task) {
  if (open_group.depth == 0) return stream->add(std::move(task));
  open_group.stream = stream;
  open_group.tasks.push_back(std::move(task));
}

}  // namespace

struct ncclComm {
  Shared* shared;
  int size, member;
  std::atomic<bool> aborted = false;

  bool wait(const std::function<bool()>& come) const {
    while (!come()) {
      if (aborted) return false;
      std::this_thread::yield();
    }
    return true;
  }
  void send(const void* from, int64_t bytes, int to) const {
    Slot& slot = shared->slots[member][to];
    for (int64_t at = 0; at < bytes; at += slot_bytes) {
      if (!wait([&] { return slot.written == slot.taken; })) return;
      std::memcpy(slot.data, static_cast<const char*>(from) + at,
                  static_cast<size_t>(std::min<int64_t>(slot_bytes, bytes - at)));
      ++slot.written;
    }
  }
  void receive(void* to, int64_t bytes, int from) const {
    Slot& slot = shared->slots[from][member];
    for (int64_t at = 0; at < bytes; at += slot_bytes) {
      if (!wait([&] { return slot.written != slot.taken; })) return;
      std::memcpy(static_cast<char*>(to) + at, slot.data,
                  static_cast<size_t>(std::min<int64_t>(slot_bytes, bytes - at)));
      ++slot.taken;
    }
  }
  // The same number of bytes from every member, in their order.
  std::vector<std::vector<char>> gather(const void* own, int64_t bytes) const {
    std::vector<std::vector<char>> all(static_cast<size_t>(size), std::vector<char>(static_cast<size_t>(bytes)));
    std::vector<std::thread> senders;
    for (int other = 0; other < size; ++other) senders.emplace_back([=, this] { send(own, bytes, other); });
    for (int other = 0; other < size; ++other) receive(all[static_cast<size_t>(other)].data(), bytes, other);
    for (std::thread& sender : senders) sender.join();
    return all;
  }
  // Adds in descending order of members, so that the order differs from that of the ranks.
  void sum(const void* own, void* to, int64_t first, int64_t count, int64_t all, ncclDataType_t type) const {
    auto terms = gather(own, all * ::size_of(type));
    if (aborted) return;
    std::vector<const void*> from;
    for (auto& term : terms) from.insert(from.begin(), term.data() + first * ::size_of(type));
    void* const result[] = {to};
    terrace::comm::sum_members(type_of(type), from, result, 0, count);
  }
};

namespace terrace::comm {

void sum_on_gpu(Type type, const void* terms, int64_t num_terms, int64_t count, void* to, cudaStream_t stream) {
  if (count == 0) return;
  stream->add([=] {
    std::vector<const void*> from;
    for (int64_t i = 0; i < num_terms; ++i) from.push_back(static_cast<const char*>(terms) + i * count * size_of(type));
    void* const result[] = {to};
    sum_members(type, from, result, 0, count);
  });
}

}  // namespace terrace::comm

extern "C" {

cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t) { return "an error of the stand-in"; }
cudaError_t cudaMalloc(void** memory, size_t bytes) { return *memory = new char[bytes], cudaSuccess; }
cudaError_t cudaFree(void* memory) { return delete[] static_cast<char*>(memory), cudaSuccess; }
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void*) {
  attributes->type = cudaMemoryTypeDevice;
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) { return *stream = new CUstream_st, cudaSuccess; }
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  stream->add({});
  stream->thread.join();
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) { return *event = new CUevent_st, cudaSuccess; }
cudaError_t cudaEventDestroy(cudaEvent_t event) { return delete event, cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (stream == nullptr) return event->promise->set_value(), cudaSuccess;
  stream->add([promise = event->promise] { promise->set_value(); });
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return event->reached.wait_for(std::chrono::seconds(0)) == std::future_status::ready ? cudaSuccess
                                                                                       : cudaErrorNotReady;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (stream == nullptr) return event->reached.wait(), cudaSuccess;
  stream->add([reached = event->reached] { reached.wait(); });
  return cudaSuccess;
}

const char* ncclGetErrorString(ncclResult_t) { return "an error of the stand-in"; }
const char* ncclGetLastError(ncclComm_t) { return ""; }
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::random_device random;
  const std::string name = "/terrace_stand_in_" + std::to_string(random()) + "_" + std::to_string(random());
  std::memset(id, 0, sizeof *id);
  std::memcpy(id->internal, name.data(), name.size());
  return ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int member, ncclConfig_t* config) {
  if (config->blocking != 0 || size > most_members) return ncclInvalidUsage;
  const int file = shm_open(id.internal, O_CREAT | O_RDWR, 0600);
  if (file < 0 || ftruncate(file, sizeof(Shared)) != 0) return ncclSystemError;
  void* const memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED) return ncclSystemError;
  auto* const shared = static_cast<Shared*>(memory);
  if (++shared->arrived == size) shm_unlink(id.internal);
  *comm = new ncclComm{shared, size, member};
  return ncclInProgress;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  *state = comm->shared->arrived < comm->size ? ncclInProgress : ncclSuccess;
  return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclSuccess; }
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  munmap(comm->shared, sizeof(Shared));
  delete comm;
  return ncclSuccess;
}
// Running tasks may still read it.
ncclResult_t ncclCommAbort(ncclComm_t comm) { return comm->aborted = true, ncclSuccess; }

ncclResult_t ncclGroupStart() { return ++open_group.depth, ncclSuccess; }
// All at once.
ncclResult_t ncclGroupEnd() {
  if (--open_group.depth > 0 || open_group.tasks.empty()) return ncclSuccess;
  open_group.stream->add([tasks = std::exchange(open_group.tasks, {})] {
    std::vector<std::thread> threads;
    for (const Task& task : tasks) threads.emplace_back(task);
    for (std::thread& thread : threads) thread.join();
  });
  return ncclSuccess;
}
ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  begin(stream, [=] { comm->send(from, static_cast<int64_t>(count) * size_of(type), peer); });
  return ncclSuccess;
}
ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  begin(stream, [=] { comm->receive(to, static_cast<int64_t>(count) * size_of(type), peer); });
  return ncclSuccess;
}
ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  begin(stream, [=] {
    const int64_t bytes = static_cast<int64_t>(count) * size_of(type);
    if (comm->member != root) return comm->receive(to, bytes, root);
    for (int other = 0; other < comm->size; ++other) {
      if (other != root) comm->send(from, bytes, other);
    }
  });
  return ncclSuccess;
}
ncclResult_t ncclAllGather(const void* from, void* to, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  begin(stream, [=] {
    const int64_t bytes = static_cast<int64_t>(count) * size_of(type);
    const auto all = comm->gather(from, bytes);
    for (size_t i = 0; i < all.size() && !comm->aborted; ++i) {
      std::memcpy(static_cast<char*>(to) + static_cast<int64_t>(i) * bytes, all[i].data(), static_cast<size_t>(bytes));
    }
  });
  return ncclSuccess;
}
ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t, ncclComm_t comm,
                           cudaStream_t stream) {
  const auto all = static_cast<int64_t>(count);
  begin(stream, [=] { comm->sum(from, to, 0, all, all, type); });
  return ncclSuccess;
}
ncclResult_t ncclReduceScatter(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t,
                               ncclComm_t comm, cudaStream_t stream) {
  const auto block = static_cast<int64_t>(count);
  begin(stream, [=] { comm->sum(from, to, block * comm->member, block, block * comm->size, type); });
  return ncclSuccess;
}

}  // extern "C"
