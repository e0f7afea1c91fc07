// Replaces the NCCL functions that the backend calls, over the stand-in's streams: members of a communicator share
// memory by its id. As in NCCL, a message moves only when its receive runs too, two members are connected in their
// first message and all in their first collective (unless NCCL_RUNTIME_CONNECT is 0), and a communicator takes no call
// before it has connected. A call of a blocking communicator waits for its connections; one of a nonblocking
// communicator takes a thread, which is only counted here. A communicator that is given up is freed, which no thread
// may use then, and waits for the GPU.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "gpu_runtime.h"
#include "terrace/comm/sum.h"
#include "tests/comm/mpi/gpu_stand_in.h"
#include "tests/comm/mpi/gpu_stand_in_streams.h"

namespace {

constexpr int most_members = 4;

std::atomic<int> made_communicators = 0, threads_of_calls = 0;

// Two members at one place are on one GPU for NCCL, which knows the machine as the host that NCCL_HOSTID names.
int place_of(int number) {
  const char* const host = std::getenv("NCCL_HOSTID");
  return bus_of(number) + (host == nullptr ? 0 : static_cast<int>(std::hash<std::string>()(host) % 1'000'000) * 1000);
}
constexpr size_t slot_bytes = 1 << 16;

// Messages that one member has sent to another and that the other has not received yet.
struct Slot {
  std::atomic<uint64_t> written, taken;
  char data[slot_bytes];
};

struct Shared {
  std::atomic<int> arrived, arrived_in_collectives;
  std::atomic<int> places[most_members];
  std::atomic<bool> sender_came[most_members][most_members], receiver_came[most_members][most_members];
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
  ncclComm_t communicator = nullptr;
  std::vector<std::vector<Task>> lists = {};                  // those of one list run one after another
  std::map<std::tuple<int, int, bool>, size_t> of_link = {};  // by sender, receiver and whether it is the sender's
};
thread_local Group open_group;

}  // namespace

struct ncclComm {
  Shared* shared;
  std::string name;
  int size, member, most_multiprocessors;
  bool blocking, shares_with_children;
  std::shared_ptr<std::atomic<bool>> aborted = std::make_shared<std::atomic<bool>>(false);
  std::atomic<int> threads_in_calls = 0;
  int children = 0;
  ncclComm* splits = nullptr;  // a child that not all members have come to
  ncclComm** child = nullptr;  // where the caller expects it
  bool used_in_collectives = false;
  std::vector<std::pair<int, int>> links = {};  // sender and receiver of the messages that this member has begun

  bool connected() const {
    if (shared->arrived < size || (splits != nullptr && !splits->connected())) return false;
    const char* const at_first_use = std::getenv("NCCL_RUNTIME_CONNECT");
    const bool early = at_first_use != nullptr && std::string(at_first_use) == "0";
    if (used_in_collectives && !early && shared->arrived_in_collectives < size) return false;
    return std::ranges::all_of(links, [this](const auto& link) {
      return shared->sender_came[link.first][link.second] && shared->receiver_came[link.first][link.second];
    });
  }
  // NCCL refuses a communicator with two members on one GPU.
  bool shares_a_gpu() const {
    return std::count(shared->places, shared->places + size, shared->places[member].load()) > 1;
  }
  void link(int from, int to) {
    links.emplace_back(from, to);
    (from == member ? shared->sender_came : shared->receiver_came)[from][to] = true;
    if (from == to) shared->receiver_came[from][to] = true;
  }
  bool wait(const std::function<bool()>& come) const {
    while (!come()) {
      if (*aborted) return false;
      std::this_thread::yield();
    }
    return true;
  }
  void send(const void* data, int64_t bytes, int to) const {
    const auto* const from = static_cast<const char*>(gpu_memory::reachable(data));
    Slot& slot = shared->slots[member][to];
    for (int64_t at = 0; at < bytes; at += slot_bytes) {
      if (!wait([&] { return slot.written == slot.taken; })) return;
      std::memcpy(slot.data, from + at, static_cast<size_t>(std::min<int64_t>(slot_bytes, bytes - at)));
      ++slot.written;
    }
    wait([&] { return slot.written == slot.taken; });
  }
  void receive(void* data, int64_t bytes, int from) const {
    auto* const to = static_cast<char*>(gpu_memory::reachable(data));
    Slot& slot = shared->slots[from][member];
    for (int64_t at = 0; at < bytes; at += slot_bytes) {
      if (!wait([&] { return slot.written != slot.taken; })) return;
      std::memcpy(to + at, slot.data, static_cast<size_t>(std::min<int64_t>(slot_bytes, bytes - at)));
      ++slot.taken;
    }
  }
  // Gathers the same number of bytes from every member, in their order.
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
    if (*aborted) return;
    std::vector<const void*> from;
    for (auto& term : terms) from.insert(from.begin(), term.data() + first * ::size_of(type));
    void* const result[] = {gpu_memory::reachable(to)};
    terrace::comm::sum_members(type_of(type), from, result, 0, count);
  }
};

namespace {

// While a thread makes a call of the communicator.
class InCall {
 public:
  explicit InCall(ncclComm_t comm) : comm_(comm) { ++comm_->threads_in_calls; }
  ~InCall() { --comm_->threads_in_calls; }
  InCall(const InCall&) = delete;
  InCall& operator=(const InCall&) = delete;

 private:
  ncclComm_t comm_;
};

void expect_no_thread_in_calls(ncclComm_t comm) {
  if (comm->threads_in_calls == 0) return;
  std::fprintf(stderr, "a communicator is freed while a thread makes a call of it\n");
  std::abort();
}

ncclResult_t enqueue(ncclComm_t comm, cudaStream_t stream, Task task) {
  const InCall in_call(comm);
  if (comm->blocking && !comm->wait([comm] { return comm->connected(); })) return ncclInternalError;
  if (!comm->blocking) ++threads_of_calls;
  stream->add(std::move(task));
  return comm->connected() ? ncclSuccess : ncclInProgress;
}

// `list` of the open group, or a list of its own.
ncclResult_t begin(ncclComm_t comm, cudaStream_t stream, Task task, std::optional<size_t> list = {}) {
  if (open_group.depth == 0) return enqueue(comm, stream, std::move(task));
  open_group.stream = stream;
  open_group.communicator = comm;
  const size_t number = list.value_or(open_group.lists.size());
  if (number == open_group.lists.size()) open_group.lists.emplace_back();
  open_group.lists[number].push_back(std::move(task));
  return ncclSuccess;
}

// Late, as STAND_IN_LATE names a place.
void be_late(const std::string& at) {
  const char* const place = std::getenv("STAND_IN_LATE");
  if (place != nullptr && place == at) std::this_thread::sleep_for(late);
}

// Memory that the members share by the name; the last one to come removes the name.
ncclComm_t make_communicator(const std::string& name, int size, int member, const ncclConfig_t& config) {
  const int file = shm_open(name.c_str(), O_CREAT | O_RDWR, 0600);
  if (file < 0 || ftruncate(file, sizeof(Shared)) != 0) return nullptr;
  void* const memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED) return nullptr;
  auto* const shared = static_cast<Shared*>(memory);
  shared->places[member] = place_of(chosen_device());
  if (++shared->arrived == size) shm_unlink(name.c_str());
  return new ncclComm{.shared = shared,
                      .name = name,
                      .size = size,
                      .member = member,
                      .most_multiprocessors = config.maxCTAs,
                      .blocking = config.blocking != 0,
                      .shares_with_children = config.splitShare == 1};
}

// Where calls are grouped, the communicator is checked before the group. A blocking one waits in the call.
bool is_usable(ncclComm_t comm) { return open_group.depth > 0 || comm->blocking || comm->connected(); }

ncclResult_t begin_collective(ncclComm_t comm, cudaStream_t stream, Task task) {
  if (!is_usable(comm)) return ncclInvalidUsage;
  if (!comm->used_in_collectives) ++comm->shared->arrived_in_collectives;
  comm->used_in_collectives = true;
  return begin(comm, stream, std::move(task));
}

// Messages between the same two members keep their order.
ncclResult_t begin_message(ncclComm_t comm, int from, int to, bool sends, cudaStream_t stream, Task task) {
  if (!is_usable(comm)) return ncclInvalidUsage;
  be_late("first message");
  comm->link(from, to);
  if (open_group.depth == 0) return begin(comm, stream, std::move(task));
  const auto [list, is_new] = open_group.of_link.try_emplace({from, to, sends}, open_group.lists.size());
  return begin(comm, stream, std::move(task), list->second);
}

}  // namespace

int communicators_of_process() { return made_communicators; }
int threads_that_enqueued_calls() { return threads_of_calls; }

extern "C" {

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
  // A rank could not look after others while it waits in a blocking one.
  if (config->blocking != 0 || size > most_members) return ncclInvalidUsage;
  ++made_communicators;
  *comm = make_communicator(id.internal, size, member, *config);
  return *comm == nullptr ? ncclSystemError : ncclInProgress;
}
// The child is there when all members have come to it, and its parent has no state before.
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* child, ncclConfig_t* config) {
  if (!comm->connected() || color != 0 || key != comm->member) return ncclInvalidUsage;
  be_late("split");
  const std::string name = comm->name + "_" + std::to_string(++comm->children);
  *child = nullptr;
  comm->child = child;
  comm->splits = make_communicator(name, comm->size, comm->member, *config);
  if (comm->splits == nullptr) return ncclSystemError;
  if (comm->shares_with_children) comm->splits->aborted = comm->aborted;
  return ncclInProgress;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  *state = !comm->connected() ? ncclInProgress : comm->shares_a_gpu() ? ncclInvalidUsage : ncclSuccess;
  if (*state == ncclSuccess && comm->splits != nullptr) *comm->child = std::exchange(comm->splits, nullptr);
  return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclSuccess; }
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  expect_no_thread_in_calls(comm);
  cudaFree(nullptr);
  munmap(comm->shared, sizeof(Shared));
  delete comm;
  return ncclSuccess;
}
// Running tasks may still read it.
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  expect_no_thread_in_calls(comm);
  *comm->aborted = true;
  cudaFree(nullptr);
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() { return ++open_group.depth, ncclSuccess; }
// All lists at once.
ncclResult_t ncclGroupEnd() {
  if (--open_group.depth > 0 || open_group.lists.empty()) return ncclSuccess;
  open_group.of_link.clear();
  return enqueue(open_group.communicator, open_group.stream, [lists = std::exchange(open_group.lists, {})] {
    std::vector<std::thread> threads;
    for (const std::vector<Task>& tasks : lists) {
      threads.emplace_back([&tasks] {
        for (const Task& task : tasks) task();
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
}
ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return begin_message(comm, comm->member, peer, true, stream,
                       [=] { comm->send(from, static_cast<int64_t>(count) * size_of(type), peer); });
}
// A receive outside a group waits for a message that may come late, and leaves multiprocessors for computations.
ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  if (open_group.depth == 0 && comm->most_multiprocessors == NCCL_CONFIG_UNDEF_INT) return ncclInvalidUsage;
  return begin_message(comm, peer, comm->member, false, stream,
                       [=] { comm->receive(to, static_cast<int64_t>(count) * size_of(type), peer); });
}
ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  return begin_collective(comm, stream, [=] {
    const int64_t bytes = static_cast<int64_t>(count) * size_of(type);
    if (comm->member != root) return comm->receive(to, bytes, root);
    for (int other = 0; other < comm->size; ++other) {
      if (other != root) comm->send(from, bytes, other);
    }
  });
}
ncclResult_t ncclAllGather(const void* from, void* to, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return begin_collective(comm, stream, [=] {
    const int64_t bytes = static_cast<int64_t>(count) * size_of(type);
    const auto all = comm->gather(from, bytes);
    auto* const blocks = static_cast<char*>(gpu_memory::reachable(to));
    for (size_t i = 0; i < all.size() && !*comm->aborted; ++i) {
      std::memcpy(blocks + static_cast<int64_t>(i) * bytes, all[i].data(), static_cast<size_t>(bytes));
    }
  });
}
ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t, ncclComm_t comm,
                           cudaStream_t stream) {
  const auto all = static_cast<int64_t>(count);
  return begin_collective(comm, stream, [=] { comm->sum(from, to, 0, all, all, type); });
}
ncclResult_t ncclReduceScatter(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t,
                               ncclComm_t comm, cudaStream_t stream) {
  const auto block = static_cast<int64_t>(count);
  return begin_collective(comm, stream,
                          [=] { comm->sum(from, to, block * comm->member, block, block * comm->size, type); });
}

}  // extern "C"
